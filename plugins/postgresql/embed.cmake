# cmake -DDIR=... -DOUT=... "-DSCRIPTS=row;session" -P embed.cmake
#
# Writes OUT, a C file with the text of <script>.sql as pg_script_<script>, which schema.h declares.
set(text "/* SPDX-License-Identifier: MIT */\n#include \"schema.h\"\n\n")
foreach(script ${SCRIPTS})
  file(READ ${DIR}/${script}.sql hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND text "const char pg_script_${script}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${text}")
