/* What the loops share: columns of bytes as Arrow has them, and checksums. */

#ifndef PENSTOCK_COLUMNS_H
#define PENSTOCK_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API /* one build for every Python from 3.11 on (docs/decisions/0058) */
#define Py_LIMITED_API 0x030b0000
#endif
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

static inline int is_tuple(PyObject *given) {
    return Py_IS_TYPE(given, &PyTuple_Type) || PyTuple_Check(given); /* the second is a call */
}

/* What PySequence_Fast has returned: a tuple or a list; its items are borrowed. */
static inline Py_ssize_t items_of(PyObject *items) { return is_tuple(items) ? PyTuple_Size(items) : PyList_Size(items); }

static inline PyObject *item_of(PyObject *items, Py_ssize_t at) {
    return is_tuple(items) ? PyTuple_GetItem(items, at) : PyList_GetItem(items, at);
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

/* ---- cyclic redundancy checks, eight bytes at a time, by tables of their polynomial (reversed) */

typedef uint32_t CrcTable[8][256];

static inline void make_crc_table(CrcTable table, uint32_t polynomial) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (int i = 0; i < 256; i++)
            table[slice][i] = table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 255];
}

/* Begins and ends with all bits inverted, which is the caller's business. */
static inline uint32_t crc_by(CrcTable table, uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24] ^ table[3][data[4]] ^
              table[2][data[5]] ^ table[1][data[6]] ^ table[0][data[7]];
    }
    while (size--)
        crc = crc >> 8 ^ table[0][(crc ^ *data++) & 255];
    return crc;
}

#endif
