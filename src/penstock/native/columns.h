/* Columns of bytes as Arrow has them, and where Kafka's Java producer sends a key: what the loops of this room share. */

#ifndef PENSTOCK_COLUMNS_H
#define PENSTOCK_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Py_buffer valid, offsets, data;
    Py_ssize_t at; /* the first row */
} Column;

static inline int is_there(const Column *column, Py_ssize_t row) {
    Py_ssize_t at = column->at + row;
    return !column->valid.buf || (((const uint8_t *)column->valid.buf)[at >> 3] >> (at & 7)) & 1;
}

static inline const char *bytes_of(const Column *column, Py_ssize_t row, size_t *size) {
    const int32_t *offsets = (const int32_t *)column->offsets.buf + column->at + row;
    if (!is_there(column, row)) {
        *size = 0;
        return NULL;
    }
    *size = (size_t)(offsets[1] - offsets[0]);
    return column->data.buf ? (const char *)column->data.buf + offsets[0] : ""; /* there, but empty */
}

static inline int buffer_of(PyObject *given, Py_buffer *buffer) {
    return given == Py_None || PyObject_GetBuffer(given, buffer, PyBUF_SIMPLE) == 0;
}

/* Tells whether a buffer holds so many numbers of a size, and lies in memory as they must. */
static inline int holds(const Py_buffer *buffer, Py_ssize_t numbers, Py_ssize_t size) {
    return buffer->len / size >= numbers && (uintptr_t)buffer->buf % (uintptr_t)size == 0;
}

/* Tells whether every row lies inside the data. */
static inline int is_sound(const Column *column, Py_ssize_t rows) {
    const int32_t *offsets = (const int32_t *)column->offsets.buf + column->at;
    int sound = offsets[0] >= 0 && offsets[rows] <= column->data.len;
    for (Py_ssize_t row = 0; row < rows; row++)
        sound &= offsets[row] <= offsets[row + 1];
    return sound;
}

/* A column is (valid or None, offsets, data or None, first row). */
static inline int column_of(PyObject *given, Column *column, Py_ssize_t rows) {
    PyObject *valid, *offsets, *data;
    memset(column, 0, sizeof *column);
    if (!PyArg_ParseTuple(given, "OOOn", &valid, &offsets, &data, &column->at))
        return 0;
    if (!buffer_of(valid, &column->valid) || !buffer_of(offsets, &column->offsets) || !buffer_of(data, &column->data))
        return 0;
    if (rows < 0 || column->at < 0 || column->offsets.len / 4 - 1 - column->at < rows ||
        (column->valid.buf && column->valid.len < (column->at + rows + 7) / 8)) {
        PyErr_SetString(PyExc_ValueError, "a column is shorter than its rows");
        return 0;
    }
    if (!holds(&column->offsets, 1, 4) || !is_sound(column, rows)) {
        PyErr_SetString(PyExc_ValueError, "a row of a column lies outside its bytes");
        return 0;
    }
    return 1;
}

static inline void release(Py_buffer *buffer) {
    if (buffer->obj)
        PyBuffer_Release(buffer);
}

static inline void release_column(Column *column) {
    release(&column->valid);
    release(&column->offsets);
    release(&column->data);
}

/* As Kafka's Java producer places a key. */
static inline uint32_t murmur2(const uint8_t *data, size_t size) {
    const uint32_t m = 0x5BD1E995u;
    uint32_t hash = 0x9747B28Cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, data += 4) {
        uint32_t word = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= m;
        hash = hash * m ^ (word ^ word >> 24) * m;
    }
    if (size) {
        for (size_t at = 0; at < size; at++)
            hash ^= (uint32_t)data[at] << 8 * at;
        hash *= m;
    }
    hash = (hash ^ hash >> 13) * m;
    return hash ^ hash >> 15;
}

/* Returns the rows by the partition that they go to, of so many, and in `ends` (spread + 1 of them) where those of each end; rows for a
   partition that does not exist are the last. Rows that may go anywhere take turns from `turn` on, RUN rows at a time; `turn` < 0: they are
   the last, too. NULL: no memory. */
enum { RUN = 1024 };

static inline int32_t *by_partition(const Column *keys, const int32_t *partitions, Py_ssize_t rows, int32_t spread, int64_t turn,
                                    Py_ssize_t *ends) {
    int32_t *order = malloc((size_t)rows * 4 + 1), *goes = malloc((size_t)rows * 4 + 1);
    Py_ssize_t lone = 0;
    memset(ends, 0, ((size_t)spread + 1) * sizeof *ends);
    if (!order || !goes) {
        free(order);
        free(goes);
        return NULL;
    }
    for (Py_ssize_t row = 0; row < rows; row++) {
        size_t size;
        const char *key;
        int32_t to = partitions ? partitions[row] : -1;
        if (to >= 0 || !spread)
            to = to >= 0 && to < spread ? to : spread;
        else if ((key = bytes_of(keys, row, &size)))
            to = (int32_t)((murmur2((const uint8_t *)key, size) & 0x7FFFFFFFu) % (uint32_t)spread);
        else
            to = turn < 0 ? spread : (int32_t)((turn + lone++ / RUN) % spread);
        goes[row] = to;
        ends[to]++;
    }
    Py_ssize_t before = 0;
    for (int32_t to = 0; to <= spread; to++) {
        Py_ssize_t count = ends[to];
        ends[to] = before;
        before += count;
    }
    for (Py_ssize_t row = 0; row < rows; row++)
        order[ends[goes[row]]++] = (int32_t)row;
    free(goes);
    return order;
}

#endif
