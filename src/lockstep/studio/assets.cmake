# lockstep_assets(OUTPUT file.cpp NAME=path...) writes a source that has the files' bytes in it.
function(lockstep_assets output)
  set(data "")
  set(rows "")
  set(number 0)
  set(type_html "text/html; charset=utf-8")
  set(type_css "text/css; charset=utf-8")
  set(type_js "text/javascript; charset=utf-8")
  set(type_svg "image/svg+xml")
  set(type_txt "text/plain; charset=utf-8")
  set(files "")
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.+)$" _ "${pair}")
    set(name ${CMAKE_MATCH_1})
    set(path ${CMAKE_MATCH_2})
    if(NOT EXISTS ${path})
      message(FATAL_ERROR "${path} is missing; scripts/setup gets it")
    endif()
    list(APPEND files ${path})
    get_filename_component(extension ${name} LAST_EXT)
    string(SUBSTRING ${extension} 1 -1 extension)
    string(APPEND data "asm(\".section .rodata\\nlockstep_asset_${number}:\\n.incbin \\\"${path}\\\"\\n"
      "lockstep_asset_${number}_end:\\n.byte 0\\n.previous\\n\");\n"
      "extern const char asset_${number}[] asm(\"lockstep_asset_${number}\");\n"
      "extern const char asset_${number}_end[] asm(\"lockstep_asset_${number}_end\");\n")
    string(APPEND rows "    {\"/${name}\", \"${type_${extension}}\", {asset_${number}, asset_${number}_end}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${output} CONTENT "// Made by assets.cmake.
#include \"lockstep/studio/assets.h\"

#include <array>

${data}
namespace lockstep::studio {

std::span<const Asset> assets() {
  static const std::array<Asset, ${number}> all{{
${rows}  }};
  return all;
}

}  // namespace lockstep::studio
" @ONLY)
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${files}" SKIP_UNITY_BUILD_INCLUSION ON
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()
