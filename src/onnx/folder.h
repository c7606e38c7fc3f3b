/* folder.h — the folder part of a path. */
#ifndef ONNX_FOLDER_H
#define ONNX_FOLDER_H

/* "a/b.onnx" → "a", "b.onnx" → "."; freed with mem_free; NULL when memory is short. */
char *path_folder(const char *path);

#endif
