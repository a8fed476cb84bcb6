# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source that contains files:
#   cmake -DOUT=FILE.cc -DHEADER=path.h -DNAMESPACE=a::b "-DFILES=app.js=AppJs;..." -DFOLDER=DIR -P EmbedFiles.cmake
# Each function of HEADER returns the content of its file, byte for byte.
set(text "// Written by cmake/EmbedFiles.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\nnamespace {\n\n")
set(functions "")
foreach(entry IN LISTS FILES)
  string(REPLACE "=" ";" pair "${entry}")
  list(GET pair 0 file)
  list(GET pair 1 function)
  file(SIZE "${FOLDER}/${file}" size)
  if(size EQUAL 0)
    message(FATAL_ERROR "${FOLDER}/${file} is empty")
  endif()
  file(READ "${FOLDER}/${file}" hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
  string(APPEND text "constexpr unsigned char k${function}[] = {\n${bytes}};\n\n")
  string(APPEND functions
         "std::string_view ${function}() { return {reinterpret_cast<const char*>(k${function}), sizeof k${function}}; }\n")
endforeach()
string(APPEND text "}  // namespace\n\n${functions}\n}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUT}" "${text}")
