# cmake -DDIR=... -DOUT=... -DNAMES="acquire;..." -P embed.cmake
#
# Writes OUT, a C file with each script: name.lua in front of <name>.lua, and its SHA1, by which the
# server knows it.
set(text "/* SPDX-License-Identifier: MIT */\n#include \"script.h\"\n\n")
set(table "")
file(READ ${DIR}/name.lua common)
foreach(name ${NAMES})
  file(READ ${DIR}/${name}.lua body)
  set(whole ${OUT}.${name}.lua)
  file(WRITE ${whole} "${common}\n${body}")
  file(SHA1 ${whole} sha)
  file(READ ${whole} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND text "static const char ${name}_body[] = {${bytes}};\n")
  string(TOUPPER ${name} upper)
  string(APPEND table
    "    [REDIS_SCRIPT_${upper}] = {\"${sha}\", ${name}_body, sizeof ${name}_body, \"${name}\"},\n")
endforeach()
string(APPEND text "\nconst struct redis_script redis_scripts[REDIS_SCRIPT_COUNT] = {\n${table}};\n")
file(WRITE ${OUT} "${text}")
