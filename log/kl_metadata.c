/*
 * partition.metadata: which topic id a directory belongs to.  Kafka's text:
 * "version: 0" and "topic_id: " with 22 characters of base64url.
 */

#include "kl_internal.h"


#define KL_METADATA_FILE  "partition.metadata"
#define KL_UUID_TEXT      22


static void
kl_uuid_text(kf_uuid_t id, char *text)
{
    int                i, k;
    uint32_t           v;
    static const char  digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789-_";

    for (i = 0; i < 16; i += 3) {
        v = (uint32_t) id.b[i] << 16;

        if (i < 15) {
            v |= (uint32_t) id.b[i + 1] << 8 | id.b[i + 2];
        }

        for (k = 18; k >= (i < 15 ? 0 : 12); k -= 6) {
            *text++ = digit[v >> k & 63];
        }
    }

    *text = '\0';
}


kl_rc_t
kl_metadata_write(kl_log_t *log)
{
    int   n;
    char  id[32], text[128];

    kl_uuid_text(log->topic_id, id);

    n = snprintf(text, sizeof(text), "version: 0\ntopic_id: %s", id);

    if (kl_write_file(log->path, KL_METADATA_FILE, text, (size_t) n, false)
        != 0)
    {
        kl_say(log->env, KL_LOG_CRIT, errno, "%s/" KL_METADATA_FILE
               ": write failed", log->path);
        return KL_STORAGE_ERROR;
    }

    return KL_OK;
}


kl_rc_t
kl_metadata_check(kl_log_t *log)
{
    int     version;
    char   *text, id[32], have[32];
    size_t  len;

    text = (char *) kl_read_file(log->path, KL_METADATA_FILE, 1024, &len);

    if (text == NULL && errno != ENOENT) {
        kl_say(log->env, KL_LOG_CRIT, errno, "%s/" KL_METADATA_FILE
               ": read failed", log->path);
        return KL_STORAGE_ERROR;
    }

    if (text == NULL
        || sscanf(text, "version: %d topic_id: %31s", &version, have) != 2
        || version != 0 || strlen(have) != KL_UUID_TEXT)
    {
        /* a power cut before the first flush, or old Kafka's directory */
        free(text);
        return kl_metadata_write(log);
    }

    kl_uuid_text(log->topic_id, id);

    if (strcmp(have, id) != 0) {
        /* whoever knows what was deleted says what this is */
        kl_say(log->env, KL_LOG_INFO, 0, "%s is another topic's: "
               KL_METADATA_FILE " has the topic id %s, not %s", log->path,
               have, id);
        free(text);
        return KL_CORRUPT;
    }

    free(text);

    return KL_OK;
}


bool
kl_metadata_is_ours(kl_log_t *log)
{
    int     version;
    bool    ours;
    char   *text, id[32], have[32];
    size_t  len;

    text = (char *) kl_read_file(log->path, KL_METADATA_FILE, 1024, &len);
    if (text == NULL) {
        return false;
    }

    kl_uuid_text(log->topic_id, id);

    ours = sscanf(text, "version: %d topic_id: %31s", &version, have) == 2
           && version == 0 && strcmp(have, id) == 0;

    free(text);

    return ours;
}
