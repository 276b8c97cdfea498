/*
 * System calls with their retries, paths, small files, log lines.
 */

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "kl_internal.h"


#ifdef KL_FAULTS
int (*kl_fault_hook)(const char *point);
#endif


void
kl_say(kl_env_t *env, kl_log_level_t level, int err, const char *fmt, ...)
{
    char     line[1024];
    va_list  args;

    if (env->log == NULL) {
        return;
    }

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);

    env->log(env->log_ctx, level, err, line);
}


int
kl_pwrite(int fd, const void *buf, size_t len, int64_t pos)
{
    ssize_t         n;
    const uint8_t  *p = buf;

    while (len) {
        errno = kl_fault("pwrite");
        if (errno) {
            return -1;
        }

        n = pwrite(fd, p, len, pos);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -1;
        }

        if (n == 0) {
            errno = ENOSPC;
            return -1;
        }

        p += n;
        pos += n;
        len -= (size_t) n;
    }

    return 0;
}


ssize_t
kl_pread(int fd, void *buf, size_t len, int64_t pos)
{
    size_t    done = 0;
    ssize_t   n;
    uint8_t  *p = buf;

    while (done < len) {
        errno = kl_fault("pread");
        if (errno) {
            return -1;
        }

        n = pread(fd, p + done, len - done, pos + (int64_t) done);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -1;
        }

        if (n == 0) {
            break;
        }

        done += (size_t) n;
    }

    return (ssize_t) done;
}


int
kl_fdatasync(int fd)
{
    errno = kl_fault("fdatasync");

    /* never tried again: the kernel may have dropped what it failed to write
     * */
    return errno ? -1 : fdatasync(fd);
}


int
kl_sync_dir(const char *path)
{
    int  fd, rc, err;

    errno = kl_fault("syncdir");
    if (errno) {
        return -1;
    }

    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == -1) {
        return -1;
    }

    rc = fsync(fd);
    err = errno;
    close(fd);
    errno = err;

    return rc;
}


int
kl_path(char *buf, const char *dir, const char *name)
{
    int  n;

    n = snprintf(buf, KL_PATH_MAX, "%s/%s", dir, name);

    if (n < 0 || n >= KL_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }

    return 0;
}


int
kl_segment_path(char *buf, kl_log_t *log, int64_t base, const char *suffix)
{
    char  name[64];

    snprintf(name, sizeof(name), "%020" PRId64 "%s", base, suffix);

    return kl_path(buf, log->path, name);
}


int
kl_write_file(const char *dir, const char *name, const void *data, size_t len,
    bool durable)
{
    int   fd, err;
    char  path[KL_PATH_MAX], tmp[KL_PATH_MAX], tmp_name[KL_NAME_MAX + 1];

    snprintf(tmp_name, sizeof(tmp_name), "%s.tmp", name);

    if (kl_path(path, dir, name) != 0 || kl_path(tmp, dir, tmp_name) != 0) {
        return -1;
    }

    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd == -1) {
        return -1;
    }

    if (kl_pwrite(fd, data, len, 0) != 0
        || (durable && kl_fdatasync(fd) != 0))
    {
        err = errno;
        close(fd);
        unlink(tmp);
        errno = err;
        return -1;
    }

    close(fd);

    errno = kl_fault("rename");

    if (errno || rename(tmp, path) != 0) {
        err = errno;
        unlink(tmp);
        errno = err;
        return -1;
    }

    return durable ? kl_sync_dir(dir) : 0;
}


uint8_t *
kl_read_file(const char *dir, const char *name, size_t max, size_t *len)
{
    int          fd, err;
    char         path[KL_PATH_MAX];
    ssize_t      n;
    uint8_t     *buf;
    struct stat  st;

    if (kl_path(path, dir, name) != 0) {
        return NULL;
    }

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return NULL;
    }

    buf = NULL;
    err = EFBIG;

    if (fstat(fd, &st) != 0) {
        err = errno;

    } else if (S_ISREG(st.st_mode) && st.st_size >= 0
               && (uint64_t) st.st_size <= max)
    {
        buf = malloc((size_t) st.st_size + 1);
        err = ENOMEM;

        if (buf != NULL) {
            n = kl_pread(fd, buf, (size_t) st.st_size, 0);

            if (n < 0) {
                err = errno;
                free(buf);
                buf = NULL;

            } else {
                buf[n] = '\0';
                *len = (size_t) n;
            }
        }
    }

    close(fd);
    errno = err;

    return buf;
}


int64_t
kl_parse_base(const char *name, const char *suffix)
{
    int      i;
    int64_t  base = 0;

    for (i = 0; i < 20; i++) {
        if (name[i] < '0' || name[i] > '9'
            || base > (INT64_MAX - (name[i] - '0')) / 10)
        {
            return -1;
        }

        base = base * 10 + (name[i] - '0');
    }

    return strcmp(name + 20, suffix) == 0 ? base : -1;
}


int
kl_open_read(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}
