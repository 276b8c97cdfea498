/*
 * Names of Kafka's error codes, for logs and variables.
 */

#include "kf_types.h"


const char *
kf_err_name(int16_t code)
{
    switch (code) {

#define X(number, name)  case number: return #name;
    KF_ERRORS(X)
#undef X

    default:
        return "UNKNOWN_ERROR_CODE";
    }
}
