/*
 * Umbrella of the codec: what the layers above include.
 */

#ifndef KF_CODEC_H
#define KF_CODEC_H

#include "kf_types.h"
#include "kf_arena.h"
#include "kf_reader.h"
#include "kf_writer.h"
#include "kf_crc32c.h"
#include "kf_batch.h"
#include "kf_compress.h"
#include "kf_api.h"
#include "gen/kf_messages.h"

#endif
