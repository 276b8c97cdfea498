/*
 * Which host and port clients are told to come back to: kafka_advertise, or
 * the address that this client connected to.
 */

#include "ngx_kafka_conn.h"


static ngx_int_t ngx_kafka_advertise_eval(ngx_kafka_conn_t *kc);
static ngx_int_t ngx_kafka_advertise_parse(ngx_kafka_conn_t *kc,
    ngx_str_t *value);
static ngx_int_t ngx_kafka_advertise_local(ngx_kafka_conn_t *kc);
static ngx_int_t ngx_kafka_advertise_set(ngx_kafka_conn_t *kc, u_char *host,
    size_t len, ngx_int_t port);
static in_port_t ngx_kafka_local_port(ngx_connection_t *c);


ngx_int_t
ngx_kafka_advertised(ngx_kafka_conn_t *kc, kf_str_t *host, int32_t *port)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    /* once per connection: it cannot change, and its memory is the pool's */

    if (io->advertised.data == NULL && ngx_kafka_advertise_eval(kc) != NGX_OK)
    {
        return NGX_ERROR;
    }

    *host = io->advertised;
    *port = io->advertised_port;

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_advertise_eval(ngx_kafka_conn_t *kc)
{
    ngx_str_t          value;
    ngx_connection_t  *c = kc->connection;

    if (kc->conf->advertise) {

        if (ngx_stream_complex_value(kc->session, kc->conf->advertise, &value)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        /* a variable may be empty: "$ssl_server_name" without SNI */

        if (value.len) {
            return ngx_kafka_advertise_parse(kc, &value);
        }
    }

    if (c->proxy_protocol && c->proxy_protocol->dst_addr.len) {
        return ngx_kafka_advertise_set(kc, c->proxy_protocol->dst_addr.data,
                                       c->proxy_protocol->dst_addr.len,
                                       c->proxy_protocol->dst_port);
    }

    return ngx_kafka_advertise_local(kc);
}


/* "host:port", "host", "[v6]:port", "[v6]", "v6" */
static ngx_int_t
ngx_kafka_advertise_parse(ngx_kafka_conn_t *kc, ngx_str_t *value)
{
    u_char     *p, *last, *host, *colon;
    size_t      len;
    ngx_int_t   port;

    p = value->data;
    last = p + value->len;
    colon = NULL;

    if (*p == '[') {
        host = p + 1;
        p = ngx_strlchr(p, last, ']');

        if (p == NULL) {
            goto invalid;
        }

        len = p - host;

        if (++p < last) {
            colon = p;

            if (*colon != ':') {
                goto invalid;
            }
        }

    } else {
        host = p;
        len = value->len;
        colon = ngx_strlchr(p, last, ':');

        if (colon && ngx_strlchr(colon + 1, last, ':')) {
            colon = NULL;                       /* a bare IPv6 address */
        }

        if (colon) {
            len = colon - host;
        }
    }

    if (colon) {
        port = ngx_atoi(colon + 1, last - colon - 1);

        if (port < 1 || port > 65535) {
            goto invalid;
        }

    } else {
        port = ngx_kafka_local_port(kc->connection);
    }

    if (len == 0) {
        goto invalid;
    }

    return ngx_kafka_advertise_set(kc, host, len, port);

invalid:

    ngx_log_error(NGX_LOG_ERR, kc->connection->log, 0,
                  "\"kafka_advertise\" gave \"%V\", which is no \"host:port\"",
                  value);

    return NGX_ERROR;
}


static ngx_int_t
ngx_kafka_advertise_local(ngx_kafka_conn_t *kc)
{
    size_t                len;
    u_char                text[NGX_SOCKADDR_STRLEN];
    ngx_connection_t     *c = kc->connection;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;
#endif

    if (ngx_connection_local_sockaddr(c, NULL, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    switch (c->local_sockaddr->sa_family) {

    case AF_INET:
        break;

#if (NGX_HAVE_INET6)
    case AF_INET6:
        sin6 = (struct sockaddr_in6 *) c->local_sockaddr;

        if (IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)) {
            len = ngx_inet_ntop(AF_INET, &sin6->sin6_addr.s6_addr[12], text,
                                NGX_SOCKADDR_STRLEN);

            return ngx_kafka_advertise_set(kc, text, len,
                                           ngx_kafka_local_port(c));
        }

        break;
#endif

    default:
        ngx_log_error(NGX_LOG_ERR, c->log, 0,
                      "a client on \"%V\" cannot be told an address, set "
                      "\"kafka_advertise\"", &c->listening->addr_text);
        return NGX_ERROR;
    }

    len = ngx_sock_ntop(c->local_sockaddr, c->local_socklen, text,
                        NGX_SOCKADDR_STRLEN, 0);

    if (text[0] == '[') {                       /* as some versions print v6 */
        return ngx_kafka_advertise_set(kc, text + 1, len - 2,
                                       ngx_kafka_local_port(c));
    }

    return ngx_kafka_advertise_set(kc, text, len, ngx_kafka_local_port(c));
}


static ngx_int_t
ngx_kafka_advertise_set(ngx_kafka_conn_t *kc, u_char *host, size_t len,
    ngx_int_t port)
{
    u_char            *p;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    p = ngx_pnalloc(kc->connection->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, host, len);

    io->advertised.data = p;
    io->advertised.len = (uint32_t) len;
    io->advertised_port = (int32_t) port;

    return NGX_OK;
}


static in_port_t
ngx_kafka_local_port(ngx_connection_t *c)
{
    if (ngx_connection_local_sockaddr(c, NULL, 0) != NGX_OK) {
        return 0;
    }

    return ngx_inet_get_port(c->local_sockaddr);
}
