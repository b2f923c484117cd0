/* SPDX-License-Identifier: MIT */
/* shim.h - what the preloaded libraries have in common. */
#ifndef DLT_SHIM_H
#define DLT_SHIM_H

#include <stddef.h>

#define SHIM_EXPORT __attribute__((visibility("default")))

/* Declares `call`: the C library's function of this name, looked up behind the shim's. */
#define SHIM_REAL(name)                             \
    static __typeof__(&(name)) _Atomic real;        \
    __typeof__(&(name)) call = real;                \
                                                    \
    if (call == NULL) {                             \
        *(void **)(void *)&call = shim_real(#name); \
        real = call;                                \
    }

/* Ends the process if there is none. */
void *shim_real(const char *name);

#endif
