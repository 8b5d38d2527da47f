/* Runs: many rows in key order as one value of LMDB, read and merged without a Python object for each row. `state/sorted_run.py` has the grammar.

   Several runs are given newest first; of rows with one key that of the newest run counts, and a deleted one hides those below it.

   INVARIANT: a run is checked when it is taken (its parts fill it) and each row when it is read (it lies in its part) and when it is
   written (there is room for it), so that a damaged one is an error and never a wild read or write. A run may be a view of LMDB's memory,
   which changes if its transaction ends meanwhile: what was found out on a first pass is not relied on in the next one. */

#include "columns.h"

enum { MOST = 64 }; /* runs at a time */
enum { FORMAT = 1 }; /* of a run */

typedef struct {
    const uint8_t *at;
    size_t size;
} Bytes;

/* Keys in the order of unsigned bytes; of two that are equal up to where one ends, the shorter one comes first. */
static int compare(Bytes one, Bytes other) {
    int order = memcmp(one.at, other.at, one.size < other.size ? one.size : other.size);
    return order ? order : (one.size > other.size) - (one.size < other.size);
}

/* ---- a run */

typedef struct {
    Py_buffer buffer;
    const uint8_t *key_edges, *value_edges, *deleted, *keys, *values;
    size_t rows, key_bytes, value_bytes;
} Run;

typedef struct {
    uint32_t format, rows, deleted, key_bytes, value_bytes;
} Head;

typedef struct {
    Run run[MOST];
    size_t count;
    int damaged; /* a row does not lie in its part */
} Runs;

static size_t bitmap_of(size_t rows, size_t deleted) { return deleted ? (rows + 7) / 8 : 0; }

static size_t size_of(Head head) {
    return sizeof head + ((size_t)head.rows + 1) * 8 + bitmap_of(head.rows, head.deleted) + head.key_bytes + head.value_bytes;
}

static uint32_t number_at(const uint8_t *numbers, size_t place) {
    uint32_t number;
    memcpy(&number, numbers + place * sizeof number, sizeof number);
    return number;
}

static void put_number(uint8_t *numbers, size_t place, uint32_t number) { memcpy(numbers + place * sizeof number, &number, sizeof number); }

/* A row ends where the next one begins. */
static Bytes part_of(Runs *runs, const uint8_t *edges, const uint8_t *bytes, size_t all, size_t row) {
    size_t begin = number_at(edges, row), end = number_at(edges, row + 1);
    if (begin > end || end > all) {
        runs->damaged = 1;
        begin = end = 0;
    }
    return (Bytes){bytes + begin, end - begin};
}

static Bytes key_of(Runs *runs, const Run *run, size_t row) { return part_of(runs, run->key_edges, run->keys, run->key_bytes, row); }

static Bytes value_of(Runs *runs, const Run *run, size_t row) {
    return part_of(runs, run->value_edges, run->values, run->value_bytes, row);
}

static int is_deleted(const Run *run, size_t row) { return run->deleted && (run->deleted[row >> 3] >> (row & 7)) & 1; }

static int take_run(PyObject *given, Run *run) {
    if (PyObject_GetBuffer(given, &run->buffer, PyBUF_SIMPLE))
        return 0;
    Head head;
    const uint8_t *at = run->buffer.buf;
    size_t size = (size_t)run->buffer.len;
    if (size >= sizeof head)
        memcpy(&head, at, sizeof head);
    if (size < sizeof head || head.format != FORMAT || size_of(head) != size) {
        PyErr_SetString(PyExc_ValueError, "a run is not as long as it says, or has another format");
        PyBuffer_Release(&run->buffer);
        return 0;
    }
    run->rows = head.rows;
    run->key_bytes = head.key_bytes;
    run->value_bytes = head.value_bytes;
    run->key_edges = at + sizeof head;
    run->value_edges = run->key_edges + (run->rows + 1) * 4;
    const uint8_t *behind = run->value_edges + (run->rows + 1) * 4;
    run->deleted = head.deleted ? behind : NULL;
    run->keys = behind + bitmap_of(head.rows, head.deleted);
    run->values = run->keys + run->key_bytes;
    return 1;
}

static void release_runs(Runs *runs) {
    while (runs->count)
        PyBuffer_Release(&runs->run[--runs->count].buffer);
}

static int take(PyObject *given, Runs *runs) {
    runs->count = 0;
    runs->damaged = 0;
    PyObject *items = PySequence_Fast(given, "runs are a sequence");
    if (!items)
        return 0;
    Py_ssize_t count = items_of(items);
    int fits = count <= MOST;
    if (!fits)
        PyErr_Format(PyExc_OverflowError, "%zd runs are too many", count);
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        fits = take_run(item_of(items, i), &runs->run[i]);
        runs->count += (size_t)fits;
    }
    Py_DECREF(items);
    if (!fits)
        release_runs(runs);
    return fits;
}

/* Returns what was made, or nothing and why: the rows were not where they should be. */
static PyObject *told(Runs *runs, PyObject *made) {
    if (runs->damaged && made) {
        Py_CLEAR(made);
        PyErr_SetString(PyExc_ValueError, "a row of a run does not lie in it");
    }
    release_runs(runs);
    return made;
}

/* Returns the first row of some whose key is not less. */
static size_t first_among(Runs *runs, const Run *run, size_t low, size_t high, Bytes key) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(key_of(runs, run, middle), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t first_of_all(Runs *runs, const Run *run, Bytes key) { return first_among(runs, run, 0, run->rows, key); }

/* Returns the first row from one on, of so many, whose key is not less: looked for nearby first. */
static size_t first_from(Runs *runs, const Run *run, size_t from, size_t end, Bytes key) {
    size_t step = 1, low = from, high;
    for (high = from; high < end && compare(key_of(runs, run, high), key) < 0; high = low + step, step *= 2)
        low = high + 1;
    return first_among(runs, run, low, high > end ? end : high, key);
}

/* ---- one key, many keys */

/* find(runs, key) -> value or None */
static PyObject *find(PyObject *module, PyObject *args) {
    PyObject *given, *made = NULL;
    Py_buffer asked;
    Runs runs;
    if (!PyArg_ParseTuple(args, "Oy*", &given, &asked))
        return NULL;
    if (take(given, &runs)) {
        Bytes key = {asked.buf, (size_t)asked.len};
        for (size_t i = 0; i < runs.count && !made; i++) {
            const Run *run = &runs.run[i];
            size_t row = first_of_all(&runs, run, key);
            if (row == run->rows || compare(key_of(&runs, run, row), key))
                continue;
            Bytes value = value_of(&runs, run, row);
            made = is_deleted(run, row) ? Py_NewRef(Py_None)
                                        : PyBytes_FromStringAndSize((const char *)value.at, (Py_ssize_t)value.size);
            if (!made)
                break;
        }
        if (!made && !PyErr_Occurred())
            made = Py_NewRef(Py_None);
        made = told(&runs, made);
    }
    PyBuffer_Release(&asked);
    return made;
}

/* Bytes of many rows, mostly keys. */
typedef struct {
    const uint8_t *ends; /* int32, where the first one begins, then where each ends */
    const uint8_t *data;
    size_t rows, size;
} Keys;

static int keys_are_sound(const Keys *keys) {
    uint32_t before = 0;
    for (size_t row = 0; row <= keys->rows; row++) {
        uint32_t end = number_at(keys->ends, row);
        if (end < before || end > INT32_MAX)
            return 0;
        before = end;
    }
    return before <= keys->size;
}

static Bytes asked_key(const Keys *keys, size_t row) {
    size_t begin = number_at(keys->ends, row);
    return (Bytes){keys->data + begin, number_at(keys->ends, row + 1) - begin};
}

typedef struct {
    uint32_t run, row; /* run: that of no run, if there is no such row */
} Place;

/* Finds all keys; those that ascend cost a few steps from one to the next. Returns the bytes of the values. */
static size_t find_all(Runs *runs, const Keys *keys, Place *places) {
    size_t at[MOST] = {0}, bytes = 0;
    for (size_t asked = 0; asked < keys->rows; asked++) {
        Bytes key = asked_key(keys, asked);
        if (asked && compare(asked_key(keys, asked - 1), key) > 0)
            memset(at, 0, sizeof at);
        places[asked].run = MOST;
        for (size_t i = 0; i < runs->count; i++) {
            const Run *run = &runs->run[i];
            size_t row = at[i] = first_from(runs, run, at[i], run->rows, key);
            if (row == run->rows || compare(key_of(runs, run, row), key))
                continue;
            if (!is_deleted(run, row)) {
                places[asked] = (Place){(uint32_t)i, (uint32_t)row};
                bytes += value_of(runs, run, row).size;
            }
            break;
        }
    }
    return bytes;
}

static void copy_found(Runs *runs, const Place *places, size_t rows, size_t bytes, uint8_t *valid, uint8_t *offsets, uint8_t *data) {
    int32_t end = 0;
    memset(valid, 0, (rows + 7) / 8);
    memcpy(offsets, &end, sizeof end);
    for (size_t row = 0; row < rows; row++) {
        if (places[row].run < MOST) {
            Bytes value = value_of(runs, &runs->run[places[row].run], places[row].row);
            if (value.size > bytes - (size_t)end) {
                runs->damaged = 1;
                value.size = 0;
            }
            memcpy(data + end, value.at, value.size);
            end += (int32_t)value.size;
            valid[row >> 3] |= (uint8_t)(1 << (row & 7));
        }
        memcpy(offsets + (row + 1) * sizeof end, &end, sizeof end);
    }
}

static PyObject *found(Runs *runs, const Keys *keys) {
    PyObject *made = NULL, *valid = NULL, *offsets = NULL, *data = NULL;
    Place *places = malloc(keys->rows * sizeof *places + 1);
    if (!places)
        return PyErr_NoMemory();
    size_t bytes;
    Py_BEGIN_ALLOW_THREADS;
    bytes = find_all(runs, keys, places);
    Py_END_ALLOW_THREADS;
    if (bytes > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the values are too many bytes for one column");
        goto done;
    }
    valid = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((keys->rows + 7) / 8));
    offsets = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(keys->rows + 1) * 4);
    data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (valid && offsets && data) {
        uint8_t *to[3] = {(uint8_t *)PyBytes_AsString(valid), (uint8_t *)PyBytes_AsString(offsets),
                          (uint8_t *)PyBytes_AsString(data)};
        Py_BEGIN_ALLOW_THREADS;
        copy_found(runs, places, keys->rows, bytes, to[0], to[1], to[2]);
        Py_END_ALLOW_THREADS;
        made = PyTuple_Pack(3, valid, offsets, data);
    }
done:
    Py_XDECREF(valid);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    free(places);
    return made;
}

/* find_many(runs, rows, offsets, data or None, first row) -> (valid, offsets, data): the values as a column of Arrow's */
static PyObject *find_many(PyObject *module, PyObject *args) {
    PyObject *given, *data, *made = NULL;
    Py_buffer offsets, bytes = {0};
    Py_ssize_t rows, first;
    Runs runs;
    if (!PyArg_ParseTuple(args, "Ony*On", &given, &rows, &offsets, &data, &first))
        return NULL;
    if (data == Py_None || PyObject_GetBuffer(data, &bytes, PyBUF_SIMPLE) == 0) {
        Keys keys = {NULL, bytes.buf ? bytes.buf : (const uint8_t *)"", (size_t)rows, bytes.buf ? (size_t)bytes.len : 0};
        int sound = rows >= 0 && first >= 0 && first < offsets.len / 4 - rows;
        if (sound) {
            keys.ends = (const uint8_t *)offsets.buf + first * 4;
            sound = keys_are_sound(&keys);
        }
        if (!sound)
            PyErr_SetString(PyExc_ValueError, "a column is shorter than its rows");
        else if (take(given, &runs))
            made = told(&runs, found(&runs, &keys));
    }
    if (bytes.obj)
        PyBuffer_Release(&bytes);
    PyBuffer_Release(&offsets);
    return made;
}

/* ---- rows of several runs in one order */

typedef struct {
    size_t at[MOST], end[MOST]; /* rows still to come: from the first to before the last; backwards: from the end */
    int backwards;
} Heads;

static size_t head_of(const Heads *heads, size_t run) { return heads->backwards ? heads->end[run] - 1 : heads->at[run]; }

/* Steps to the next key, past the rows of all runs that have it; 0: there is none. Its newest row is told, deleted or not. */
static int next_row(Runs *runs, Heads *heads, Place *place) {
    size_t same[MOST], count = 0;
    Bytes best = {NULL, 0};
    for (size_t i = 0; i < runs->count; i++) {
        if (heads->at[i] == heads->end[i])
            continue;
        Bytes key = key_of(runs, &runs->run[i], head_of(heads, i));
        int order = count ? compare(key, best) : -1;
        if (count && heads->backwards)
            order = -order;
        if (order > 0)
            continue;
        if (order < 0) {
            best = key;
            count = 0;
        }
        same[count++] = i;
    }
    if (!count)
        return 0;
    *place = (Place){(uint32_t)same[0], (uint32_t)head_of(heads, same[0])};
    while (count) {
        size_t i = same[--count];
        if (heads->backwards)
            heads->end[i]--;
        else
            heads->at[i]++;
    }
    return 1;
}

static void all_rows(const Runs *runs, Heads *heads) {
    heads->backwards = 0;
    for (size_t i = 0; i < runs->count; i++) {
        heads->at[i] = 0;
        heads->end[i] = runs->run[i].rows;
    }
}

static PyObject *pair_of(Runs *runs, Place place) {
    Bytes key = key_of(runs, &runs->run[place.run], place.row), value = value_of(runs, &runs->run[place.run], place.row);
    return Py_BuildValue("(y#y#)", (const char *)key.at, (Py_ssize_t)key.size, (const char *)value.at, (Py_ssize_t)value.size);
}

/* rows(runs, lower or None, upper or None, backwards, most) -> [(key, value)] with lower <= key < upper, no more than so many */
static PyObject *rows(PyObject *module, PyObject *args) {
    PyObject *given, *made = NULL;
    Py_buffer lower, upper;
    Py_ssize_t most;
    Runs runs;
    Heads heads;
    Place place;
    if (!PyArg_ParseTuple(args, "Oz*z*pn", &given, &lower, &upper, &heads.backwards, &most))
        return NULL;
    if (take(given, &runs)) {
        for (size_t i = 0; i < runs.count; i++) {
            const Run *run = &runs.run[i];
            heads.at[i] = lower.buf ? first_of_all(&runs, run, (Bytes){lower.buf, (size_t)lower.len}) : 0;
            heads.end[i] = upper.buf ? first_of_all(&runs, run, (Bytes){upper.buf, (size_t)upper.len}) : run->rows;
            if (heads.end[i] < heads.at[i])
                heads.end[i] = heads.at[i];
        }
        made = PyList_New(0);
        while (made && PyList_Size(made) < most && !runs.damaged && next_row(&runs, &heads, &place)) {
            if (is_deleted(&runs.run[place.run], place.row))
                continue;
            PyObject *pair = pair_of(&runs, place);
            if (!pair || PyList_Append(made, pair))
                Py_CLEAR(made);
            Py_XDECREF(pair);
        }
        made = told(&runs, made);
    }
    PyBuffer_Release(&lower);
    PyBuffer_Release(&upper);
    return made;
}

/* unpack(run) -> [(key, value, or None if it is deleted)] */
static PyObject *unpack(PyObject *module, PyObject *given) {
    Runs runs = {.count = 0};
    if (!take_run(given, &runs.run[0]))
        return NULL;
    runs.count = 1;
    const Run *run = &runs.run[0];
    PyObject *made = PyList_New((Py_ssize_t)run->rows);
    for (size_t row = 0; made && row < run->rows; row++) {
        Bytes key = key_of(&runs, run, row);
        PyObject *pair = is_deleted(run, row) ? Py_BuildValue("(y#O)", (const char *)key.at, (Py_ssize_t)key.size, Py_None)
                                              : pair_of(&runs, (Place){0, (uint32_t)row});
        if (pair)
            PyList_SetItem(made, (Py_ssize_t)row, pair);
        else
            Py_CLEAR(made);
    }
    return told(&runs, made);
}

/* count(runs) -> how many keys have a row */
static PyObject *count(PyObject *module, PyObject *given) {
    Runs runs;
    Heads heads;
    Place place;
    Py_ssize_t there = 0;
    if (!take(given, &runs))
        return NULL;
    all_rows(&runs, &heads);
    Py_BEGIN_ALLOW_THREADS;
    while (!runs.damaged && next_row(&runs, &heads, &place))
        there += !is_deleted(&runs.run[place.run], place.row);
    Py_END_ALLOW_THREADS;
    return told(&runs, PyLong_FromSsize_t(there));
}

/* ---- writing */

/* Where the parts of a run are written, and how far they are. */
typedef struct {
    uint8_t *key_edges, *value_edges, *deleted, *keys, *values;
    uint32_t key_end, value_end;
    Head head;
} Writing;

static Writing begin_run(Head head, uint8_t *to) {
    Writing run = {.head = head};
    memcpy(to, &head, sizeof head);
    run.key_edges = to + sizeof head;
    run.value_edges = run.key_edges + ((size_t)head.rows + 1) * 4;
    run.deleted = run.value_edges + ((size_t)head.rows + 1) * 4;
    run.keys = run.deleted + bitmap_of(head.rows, head.deleted);
    run.values = run.keys + head.key_bytes;
    memset(run.deleted, 0, (size_t)(run.keys - run.deleted));
    put_number(run.key_edges, 0, 0);
    put_number(run.value_edges, 0, 0);
    return run;
}

/* Returns 0 if there is no room for the row: it is not the one that the head was made for. */
static int write_row(Writing *run, size_t row, Bytes key, Bytes stamp, Bytes value, int is_deleted) {
    if (key.size > run->head.key_bytes - run->key_end || stamp.size + value.size > run->head.value_bytes - run->value_end ||
        (is_deleted && !run->head.deleted))
        return 0;
    memcpy(run->keys + run->key_end, key.at, key.size);
    memcpy(run->values + run->value_end, stamp.at, stamp.size);
    memcpy(run->values + run->value_end + stamp.size, value.at, value.size);
    put_number(run->key_edges, row + 1, run->key_end += (uint32_t)key.size);
    put_number(run->value_edges, row + 1, run->value_end += (uint32_t)(stamp.size + value.size));
    if (is_deleted)
        run->deleted[row >> 3] |= (uint8_t)(1 << (row & 7));
    return 1;
}

static int too_large(size_t rows, size_t key_bytes, size_t value_bytes) {
    int is = rows >= INT32_MAX || key_bytes > INT32_MAX || value_bytes > INT32_MAX;
    if (is)
        PyErr_SetString(PyExc_OverflowError, "the rows are too many for one run");
    return is;
}

/* A column, and its bytes as keys are asked for. */
typedef struct {
    Column column;
    Keys bytes;
} Packed;

static int packed_of(PyObject *given, Py_ssize_t rows, Packed *packed) {
    if (!column_of(given, &packed->column, rows))
        return 0;
    const Column *column = &packed->column;
    packed->bytes = (Keys){(const uint8_t *)column->offsets.buf + column->at * 4, column->data.buf ? column->data.buf : (const uint8_t *)"",
                         (size_t)rows, column->data.buf ? (size_t)column->data.len : 0};
    return 1;
}

static size_t bytes_in(const Packed *packed) {
    return number_at(packed->bytes.ends, packed->bytes.rows) - number_at(packed->bytes.ends, 0);
}

static Head head_for(const Packed *names, const Packed *values, int stamped) {
    Head head = {FORMAT, (uint32_t)names->bytes.rows, 0, (uint32_t)bytes_in(names), 0};
    for (size_t row = 0; row < names->bytes.rows; row++)
        if (!is_there(&values->column, (Py_ssize_t)row))
            head.deleted++;
        else
            head.value_bytes += (uint32_t)asked_key(&values->bytes, row).size + (stamped ? 8 : 0);
    return head;
}

static int write_columns(const Packed *names, const Packed *values, const uint8_t *times, Head head, uint8_t *to) {
    Writing run = begin_run(head, to);
    const Bytes nothing = {(const uint8_t *)"", 0};
    int fits = 1;
    for (size_t row = 0; fits && row < head.rows; row++) {
        uint8_t stamp[8];
        uint64_t time = 0;
        if (times)
            memcpy(&time, times + row * 8, 8);
        for (int i = 0; i < 8; i++)
            stamp[i] = (uint8_t)(time >> (56 - 8 * i));
        int gone = !is_there(&values->column, (Py_ssize_t)row);
        fits = write_row(&run, row, asked_key(&names->bytes, row), gone || !times ? nothing : (Bytes){stamp, 8},
                         gone ? nothing : asked_key(&values->bytes, row), gone);
    }
    return fits;
}

/* pack(rows, names, values, times or None) -> run. Values, but nulls, which are deleted, get 8 bytes of their time in front, big-endian. */
static PyObject *pack(PyObject *module, PyObject *args) {
    PyObject *name_column, *value_column, *given_times, *made = NULL;
    Py_ssize_t rows;
    Packed names = {0}, values = {0};
    Py_buffer times = {0};
    if (!PyArg_ParseTuple(args, "nOOO", &rows, &name_column, &value_column, &given_times))
        return NULL;
    if (!packed_of(name_column, rows, &names) || !packed_of(value_column, rows, &values) ||
        !buffer_of(given_times, &times))
        goto done;
    if (times.buf && times.len / 8 < rows) {
        PyErr_SetString(PyExc_ValueError, "a column is shorter than its rows");
        goto done;
    }
    if (too_large((size_t)rows, bytes_in(&names), bytes_in(&values) + (times.buf ? (size_t)rows * 8 : 0)))
        goto done;
    Head head = head_for(&names, &values, times.buf != NULL);
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size_of(head));
    if (made) {
        uint8_t *to = (uint8_t *)PyBytes_AsString(made);
        int fits;
        Py_BEGIN_ALLOW_THREADS;
        fits = write_columns(&names, &values, times.buf, head, to);
        Py_END_ALLOW_THREADS;
        if (!fits) {
            Py_CLEAR(made);
            PyErr_SetString(PyExc_ValueError, "a column has changed meanwhile");
        }
    }
done:
    release_column(&names.column);
    release_column(&values.column);
    release(&times);
    return made;
}

/* ---- merging */

typedef struct {
    Place *places;
    size_t rows, deleted, key_bytes, value_bytes;
} Merged;

static void choose(Runs *runs, int keep_deleted, Merged *merged) {
    Heads heads;
    Place place;
    all_rows(runs, &heads);
    while (!runs->damaged && next_row(runs, &heads, &place)) {
        const Run *run = &runs->run[place.run];
        int gone = is_deleted(run, place.row);
        if (gone && !keep_deleted)
            continue;
        merged->places[merged->rows++] = place;
        merged->deleted += (size_t)gone;
        merged->key_bytes += key_of(runs, run, place.row).size;
        merged->value_bytes += value_of(runs, run, place.row).size;
    }
}

static void write_merged(Runs *runs, const Merged *merged, Head head, uint8_t *to) {
    Writing made = begin_run(head, to);
    for (size_t row = 0; !runs->damaged && row < merged->rows; row++) {
        const Run *run = &runs->run[merged->places[row].run];
        size_t from = merged->places[row].row;
        if (!write_row(&made, row, key_of(runs, run, from), (Bytes){(const uint8_t *)"", 0}, value_of(runs, run, from), is_deleted(run, from)))
            runs->damaged = 1;
    }
    runs->damaged |= made.key_end != head.key_bytes || made.value_end != head.value_bytes;
}

static PyObject *merged_run(Runs *runs, int keep_deleted) {
    PyObject *made = NULL;
    Merged merged = {0};
    size_t most = 0;
    for (size_t i = 0; i < runs->count; i++)
        most += runs->run[i].rows;
    merged.places = malloc(most * sizeof *merged.places + 1);
    if (!merged.places)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    choose(runs, keep_deleted, &merged);
    Py_END_ALLOW_THREADS;
    if (runs->damaged)
        made = Py_NewRef(Py_None); /* told so by whoever asked */
    else if (!too_large(merged.rows, merged.key_bytes, merged.value_bytes)) {
        Head head = {FORMAT, (uint32_t)merged.rows, (uint32_t)merged.deleted, (uint32_t)merged.key_bytes, (uint32_t)merged.value_bytes};
        made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size_of(head));
        if (made) {
            uint8_t *to = (uint8_t *)PyBytes_AsString(made);
            Py_BEGIN_ALLOW_THREADS;
            write_merged(runs, &merged, head, to);
            Py_END_ALLOW_THREADS;
        }
    }
    free(merged.places);
    return made;
}

/* merge(runs, keep deleted rows) -> run */
static PyObject *merge(PyObject *module, PyObject *args) {
    PyObject *given;
    int keep_deleted;
    Runs runs;
    if (!PyArg_ParseTuple(args, "Op", &given, &keep_deleted) || !take(given, &runs))
        return NULL;
    return told(&runs, merged_run(&runs, keep_deleted));
}

static PyMethodDef METHODS[] = {
    {"pack", pack, METH_VARARGS, NULL}, {"find", find, METH_VARARGS, NULL},   {"find_many", find_many, METH_VARARGS, NULL},
    {"unpack", unpack, METH_O, NULL},   {"rows", rows, METH_VARARGS, NULL}, {"count", count, METH_O, NULL}, {"merge", merge, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "penstock.native._sorted_runs", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__sorted_runs(void) { return PyModule_Create(&MODULE); }
