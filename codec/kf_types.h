/*
 * Types shared by the whole codec: views, results, Kafka's error numbers.
 *
 * The codec does no I/O, knows no clock and allocates only from an arena that
 * the caller hands in.  Views point into the caller's bytes and own nothing.
 */

#ifndef KF_TYPES_H
#define KF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(hidden)


/* What a codec function answers; a Kafka error code is never mixed into it. */
typedef enum {
    KF_OK = 0,
    KF_MALFORMED,           /* the bytes break the format */
    KF_UNSUPPORTED,         /* a version or a codec that we do not have */
    KF_NO_MEMORY,           /* the arena is at its limit */
    KF_TOO_LARGE            /* a bound that the caller gave was passed */
} kf_rc_t;


/* A string or bytes, not NUL-terminated.  data == NULL means Kafka's null. */
typedef struct {
    const uint8_t  *data;
    uint32_t        len;
} kf_str_t;

typedef kf_str_t    kf_bytes_t;

#define kf_str(text)                                                          \
    ((kf_str_t) { (const uint8_t *) (text), sizeof(text) - 1 })
#define kf_null_str      ((kf_str_t) { NULL, 0 })


static inline bool
kf_str_is_null(kf_str_t s)
{
    return s.data == NULL;
}


/* Null and empty are different strings. */
static inline bool
kf_str_eq(kf_str_t a, kf_str_t b)
{
    return a.len == b.len && (a.data == NULL) == (b.data == NULL)
           && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}


typedef struct {
    uint8_t  b[16];         /* big-endian, as on the wire */
} kf_uuid_t;


static inline bool
kf_uuid_eq(kf_uuid_t a, kf_uuid_t b)
{
    return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}


static inline bool
kf_uuid_is_zero(kf_uuid_t a)
{
    static const kf_uuid_t  zero;

    return kf_uuid_eq(a, zero);
}


/*
 * A records field.  Decoded: data and len view the request.  To be encoded:
 * data != NULL    the bytes are copied into the flat buffer;
 * ref != NULL     len bytes that are not in memory (a slice of a file): the
 *                 writer leaves them out and notes a splice;
 * both NULL       null.
 */
typedef struct {
    const uint8_t  *data;
    uint32_t        len;
    const void     *ref;
} kf_records_t;


/* Kafka's error codes: number, name.  (KF_ERR_<name>) */
#define KF_ERRORS(X)                                                          \
    X(-1, UNKNOWN_SERVER_ERROR)                                               \
    X(0, NONE)                                                                \
    X(1, OFFSET_OUT_OF_RANGE)                                                 \
    X(2, CORRUPT_MESSAGE)                                                     \
    X(3, UNKNOWN_TOPIC_OR_PARTITION)                                          \
    X(4, INVALID_FETCH_SIZE)                                                  \
    X(5, LEADER_NOT_AVAILABLE)                                                \
    X(6, NOT_LEADER_OR_FOLLOWER)                                              \
    X(7, REQUEST_TIMED_OUT)                                                   \
    X(8, BROKER_NOT_AVAILABLE)                                                \
    X(9, REPLICA_NOT_AVAILABLE)                                               \
    X(10, MESSAGE_TOO_LARGE)                                                  \
    X(12, OFFSET_METADATA_TOO_LARGE)                                          \
    X(13, NETWORK_EXCEPTION)                                                  \
    X(14, COORDINATOR_LOAD_IN_PROGRESS)                                       \
    X(15, COORDINATOR_NOT_AVAILABLE)                                          \
    X(16, NOT_COORDINATOR)                                                    \
    X(17, INVALID_TOPIC_EXCEPTION)                                            \
    X(18, RECORD_LIST_TOO_LARGE)                                              \
    X(19, NOT_ENOUGH_REPLICAS)                                                \
    X(20, NOT_ENOUGH_REPLICAS_AFTER_APPEND)                                   \
    X(21, INVALID_REQUIRED_ACKS)                                              \
    X(22, ILLEGAL_GENERATION)                                                 \
    X(23, INCONSISTENT_GROUP_PROTOCOL)                                        \
    X(24, INVALID_GROUP_ID)                                                   \
    X(25, UNKNOWN_MEMBER_ID)                                                  \
    X(26, INVALID_SESSION_TIMEOUT)                                            \
    X(27, REBALANCE_IN_PROGRESS)                                              \
    X(28, INVALID_COMMIT_OFFSET_SIZE)                                         \
    X(29, TOPIC_AUTHORIZATION_FAILED)                                         \
    X(30, GROUP_AUTHORIZATION_FAILED)                                         \
    X(31, CLUSTER_AUTHORIZATION_FAILED)                                       \
    X(32, INVALID_TIMESTAMP)                                                  \
    X(33, UNSUPPORTED_SASL_MECHANISM)                                         \
    X(34, ILLEGAL_SASL_STATE)                                                 \
    X(35, UNSUPPORTED_VERSION)                                                \
    X(36, TOPIC_ALREADY_EXISTS)                                               \
    X(37, INVALID_PARTITIONS)                                                 \
    X(38, INVALID_REPLICATION_FACTOR)                                         \
    X(39, INVALID_REPLICA_ASSIGNMENT)                                         \
    X(40, INVALID_CONFIG)                                                     \
    X(41, NOT_CONTROLLER)                                                     \
    X(42, INVALID_REQUEST)                                                    \
    X(43, UNSUPPORTED_FOR_MESSAGE_FORMAT)                                     \
    X(44, POLICY_VIOLATION)                                                   \
    X(45, OUT_OF_ORDER_SEQUENCE_NUMBER)                                       \
    X(46, DUPLICATE_SEQUENCE_NUMBER)                                          \
    X(47, INVALID_PRODUCER_EPOCH)                                             \
    X(48, INVALID_TXN_STATE)                                                  \
    X(49, INVALID_PRODUCER_ID_MAPPING)                                        \
    X(50, INVALID_TRANSACTION_TIMEOUT)                                        \
    X(51, CONCURRENT_TRANSACTIONS)                                            \
    X(52, TRANSACTION_COORDINATOR_FENCED)                                     \
    X(53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)                              \
    X(54, SECURITY_DISABLED)                                                  \
    X(55, OPERATION_NOT_ATTEMPTED)                                            \
    X(56, KAFKA_STORAGE_ERROR)                                                \
    X(57, LOG_DIR_NOT_FOUND)                                                  \
    X(58, SASL_AUTHENTICATION_FAILED)                                         \
    X(59, UNKNOWN_PRODUCER_ID)                                                \
    X(61, DELEGATION_TOKEN_AUTH_DISABLED)                                     \
    X(68, NON_EMPTY_GROUP)                                                    \
    X(69, GROUP_ID_NOT_FOUND)                                                 \
    X(70, FETCH_SESSION_ID_NOT_FOUND)                                         \
    X(71, INVALID_FETCH_SESSION_EPOCH)                                        \
    X(72, LISTENER_NOT_FOUND)                                                 \
    X(73, TOPIC_DELETION_DISABLED)                                            \
    X(74, FENCED_LEADER_EPOCH)                                                \
    X(75, UNKNOWN_LEADER_EPOCH)                                               \
    X(76, UNSUPPORTED_COMPRESSION_TYPE)                                       \
    X(77, STALE_BROKER_EPOCH)                                                 \
    X(78, OFFSET_NOT_AVAILABLE)                                               \
    X(79, MEMBER_ID_REQUIRED)                                                 \
    X(81, GROUP_MAX_SIZE_REACHED)                                             \
    X(82, FENCED_INSTANCE_ID)                                                 \
    X(84, ELECTION_NOT_NEEDED)                                                \
    X(85, NO_REASSIGNMENT_IN_PROGRESS)                                        \
    X(86, GROUP_SUBSCRIBED_TO_TOPIC)                                          \
    X(87, INVALID_RECORD)                                                     \
    X(88, UNSTABLE_OFFSET_COMMIT)                                             \
    X(89, THROTTLING_QUOTA_EXCEEDED)                                          \
    X(90, PRODUCER_FENCED)                                                    \
    X(91, RESOURCE_NOT_FOUND)                                                 \
    X(95, INVALID_UPDATE_VERSION)                                             \
    X(100, UNKNOWN_TOPIC_ID)                                                  \
    X(103, INCONSISTENT_TOPIC_ID)                                             \
    X(105, TRANSACTIONAL_ID_NOT_FOUND)                                        \
    X(106, FETCH_SESSION_TOPIC_ID_ERROR)                                      \
    X(110, FENCED_MEMBER_EPOCH)                                               \
    X(111, UNRELEASED_INSTANCE_ID)                                            \
    X(112, UNSUPPORTED_ASSIGNOR)                                              \
    X(113, STALE_MEMBER_EPOCH)                                                \
    X(114, MISMATCHED_ENDPOINT_TYPE)                                          \
    X(115, UNSUPPORTED_ENDPOINT_TYPE)                                         \
    X(120, TRANSACTION_ABORTABLE)                                             \
    X(121, INVALID_RECORD_STATE)                                              \
    X(122, SHARE_SESSION_NOT_FOUND)                                           \
    X(123, INVALID_SHARE_SESSION_EPOCH)                                       \
    X(124, FENCED_STATE_EPOCH)                                                \
    X(128, INVALID_REGULAR_EXPRESSION)                                        \
    X(129, REBOOTSTRAP_REQUIRED)                                              \
    X(133, SHARE_SESSION_LIMIT_REACHED)                                       \
    X(134, GROUP_DELETION_FAILED)

typedef enum {
#define X(number, name)  KF_ERR_##name = number,
    KF_ERRORS(X)
#undef X
} kf_err_t;

/* Kafka's name of an error code ("UNKNOWN_TOPIC_OR_PARTITION"); static. */
const char *kf_err_name(int16_t code);


#pragma GCC visibility pop

#endif
