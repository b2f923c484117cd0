/* SPDX-License-Identifier: MIT */
/* faults.h - all that makes the world of a test bad, from C; README.md says what each tool does. */
#ifndef DLT_FAULTS_H
#define DLT_FAULTS_H

#include "fault.h"
#include "proxy_client.h"
#include "scripted_client.h"
#include "skew.h"

#endif
