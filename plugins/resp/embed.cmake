# cmake -DDIR=... -DOUT=... -DPREFIX=redis "-DSCRIPTS=acquire=fence+name+acquire;..." -P embed.cmake
#
# Writes OUT, a C file with the table <prefix>_scripts of <prefix>/lua/script.h: each script, put together from the
# files named, and its SHA1, by which the server knows it.
set(text "/* SPDX-License-Identifier: MIT */\n#include \"${PREFIX}/lua/script.h\"\n\n")
set(table "")
string(TOUPPER ${PREFIX} upper_prefix)
foreach(script ${SCRIPTS})
  string(REGEX REPLACE "=.*" "" name "${script}")
  string(REGEX REPLACE ".*=" "" parts "${script}")
  string(REPLACE "+" ";" parts "${parts}")
  set(body "")
  foreach(part ${parts})
    file(READ ${DIR}/${part}.lua piece)
    string(APPEND body "${piece}\n")
  endforeach()
  set(whole ${OUT}.${name}.lua)
  file(WRITE ${whole} "${body}")
  file(SHA1 ${whole} sha)
  file(READ ${whole} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND text "static const char ${name}_body[] = {${bytes}};\n")
  string(TOUPPER ${name} upper)
  string(APPEND table
    "    [${upper_prefix}_SCRIPT_${upper}] = {\"${sha}\", ${name}_body, sizeof ${name}_body, \"${name}\"},\n")
endforeach()
string(APPEND text "\nconst struct resp_script ${PREFIX}_scripts[${upper_prefix}_SCRIPT_COUNT] = {\n${table}};\n")
file(WRITE ${OUT} "${text}")
