/* _elementwise_tables.h — the loops compiled for each instruction set, and the best for this processor. */
#ifndef CPU_ELEMENTWISE_TABLES_H
#define CPU_ELEMENTWISE_TABLES_H

#include "ops/_elementwise.h"

extern const ew_table ew_table_base; /* what the compiler assumes of every processor */
#if defined(__x86_64__)
extern const ew_table ew_table_avx2;   /* with FMA */
extern const ew_table ew_table_avx512; /* F, BW, DQ, VL */
#endif

const ew_table *ew_table_best(void);

#endif
