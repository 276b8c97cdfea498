/*
 * What CreateTopics shares with DescribeConfigs.
 */

#ifndef KC_DESCRIBE_H
#define KC_DESCRIBE_H

#include "kc_config_def.h"
#include "kc_request.h"

#pragma GCC visibility push(hidden)


/* Value in force and its source for a topic (NULL: a topic without overrides);
   false: the arena is full. */
bool kc_topic_config_show(const kc_t *kc, const kc_call_t *call,
    const kc_topic_t *t, const kc_def_t *def, kf_str_t *value, int8_t *source);


#pragma GCC visibility pop

#endif
