/*
 * Driving decided transactions: journal, markers, completion.
 */

#ifndef NGX_KAFKA_TXN_H
#define NGX_KAFKA_TXN_H

#include "ngx_kafka_api.h"
#include "../coordinator/kc_txn.h"

#pragma GCC visibility push(hidden)


typedef struct ngx_kafka_drive_s  ngx_kafka_drive_t;

/*
 * Notes a decided transaction (a copy of work; NULL: no memory), under the
 * coordinator's lock.  ngx_kafka_txn_drive_start(), after its release, begins;
 * done(data, rc) is called once, perhaps at once: NGX_OK, it is complete and
 * its effect visible; NGX_ERROR, not yet: the sweep will go on with it.  The
 * drive is gone then.  Until then ngx_kafka_txn_forget() drops done.
 */
ngx_kafka_drive_t *ngx_kafka_txn_drive(ngx_kafka_broker_t *b,
    const kc_txn_work_t *work, void (*done)(void *data, ngx_int_t rc),
    void *data);
void ngx_kafka_txn_drive_start(ngx_kafka_drive_t *d);
void ngx_kafka_txn_forget(ngx_kafka_drive_t *d);


#pragma GCC visibility pop

#endif
