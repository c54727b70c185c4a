# cmake -DFOLDER=... -DOUT=... -P embed.cmake: puts style.css and the scripts into
# page.html and the whole into a C++ string.
file(READ "${FOLDER}/page.html" page)
foreach(part style.css timeline.js page.js)
  file(READ "${FOLDER}/${part}" text)
  string(REPLACE "{{${part}}}" "${text}" page "${page}")
endforeach()
file(WRITE "${OUT}" "#include \"coordinator/page/status_page.h\"

namespace gimbal::coordinator {

const char kStatusPage[] = R\"GIMBAL_PAGE(${page})GIMBAL_PAGE\";

}  // namespace gimbal::coordinator
")
