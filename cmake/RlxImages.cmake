# librlx-images.so: decoders of image formats, each where its library is found. onnx.ImageDecoder opens it when it needs one.

option(RLX_IMAGES "Build librlx-images.so with the image libraries that are found" ON)
if(NOT RLX_IMAGES OR NOT TARGET rlx)
  return()
endif()

add_library(rlx-images MODULE src/images/library.c)
set(rlx_image_formats)
foreach(pair IN ITEMS jpeg=libjpeg png=libpng webp=libwebp tiff=libtiff-4 jpeg2000=libopenjp2)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 format)
  list(GET pair 1 module)
  pkg_check_modules(RLX_IMAGE_${format} QUIET IMPORTED_TARGET ${module})
  if(RLX_IMAGE_${format}_FOUND)
    string(TOUPPER ${format} name)
    target_sources(rlx-images PRIVATE src/images/${format}.c)
    target_compile_definitions(rlx-images PRIVATE RLX_HAVE_${name}=1)
    target_link_libraries(rlx-images PRIVATE PkgConfig::RLX_IMAGE_${format})
    list(APPEND rlx_image_formats ${format})
  endif()
endforeach()
message(STATUS "Image formats by libraries: ${rlx_image_formats}")
target_link_libraries(rlx-images PRIVATE rlx_private)
set_target_properties(rlx-images PROPERTIES
  C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  SUFFIX .so)
target_compile_definitions(rlx-images PRIVATE RLX_BUILDING)
install(TARGETS rlx-images LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rlx)
