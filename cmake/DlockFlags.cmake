# dlock_flags: warnings, hardening and sanitizers of every target of the project.
add_library(dlock_flags INTERFACE)

target_compile_options(dlock_flags INTERFACE
  -Wall -Wextra -Wpedantic $<$<BOOL:${DLOCK_WERROR}>:-Werror>
  -Wshadow -Wvla -Wformat=2 -Wconversion -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wcast-align -Wwrite-strings -Wundef -Wimplicit-fallthrough -Wnull-dereference
  -fno-common -fvisibility=hidden -fstack-protector-strong -fstack-clash-protection
  -fcf-protection -ftrivial-auto-var-init=zero)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang") # for libFuzzer; gcc's -Wconversion means less
  target_compile_options(dlock_flags INTERFACE -Wno-sign-conversion -Wno-string-plus-int)
  # sys/sdt.h leaves the last argument of a macro out.
  include(CheckCCompilerFlag)
  foreach(warning gnu-zero-variadic-macro-arguments c23-extensions)
    check_c_compiler_flag(-W${warning} DLOCK_WARNS_${warning})
    if(DLOCK_WARNS_${warning})
      target_compile_options(dlock_flags INTERFACE -Wno-${warning})
    endif()
  endforeach()
  if(CMAKE_C_COMPILER_VERSION VERSION_LESS 16)
    target_compile_options(dlock_flags INTERFACE
      -enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang)
  endif()
endif()
target_compile_definitions(dlock_flags INTERFACE _GNU_SOURCE)
target_link_options(dlock_flags INTERFACE
  -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)

if(DLOCK_SANITIZE STREQUAL "address")
  target_compile_options(dlock_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(dlock_flags INTERFACE -fsanitize=address,undefined)
elseif(DLOCK_SANITIZE STREQUAL "thread")
  target_compile_options(dlock_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(dlock_flags INTERFACE -fsanitize=thread)
elseif(DLOCK_SANITIZE)
  message(FATAL_ERROR "DLOCK_SANITIZE is '${DLOCK_SANITIZE}': want address, thread or nothing")
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  # Fortification needs optimisation, and hides bugs from the sanitizers.
  target_compile_definitions(dlock_flags INTERFACE _FORTIFY_SOURCE=2)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
