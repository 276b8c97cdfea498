/*
 * Named points at which a test may fail a system call or kill the process.
 * Compiled in with -DKL_FAULTS only.
 *
 * The hook gets the point's name and answers 0 (go on) or the errno that the
 * call shall fail with; it may also not return.
 */

#ifndef KL_FAULT_H
#define KL_FAULT_H

#ifdef KL_FAULTS

#pragma GCC visibility push(hidden)
extern int (*kl_fault_hook)(const char *point);
#pragma GCC visibility pop

#define kl_fault(point)  (kl_fault_hook ? kl_fault_hook(point) : 0)

#else

#define kl_fault(point)  0

#endif

#endif
