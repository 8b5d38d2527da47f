/* Whether no two of many objects are one: asked of all rows that a fold has made, so it is a table of places, not a sort of numbers. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

/* Whether nobody can change objects of this class: it is one of those given. The answer for the last class is kept: most are of one. */
typedef struct {
    PyObject *fixed; /* a frozenset of classes */
    PyTypeObject *last;
    int is_fixed;
} Classes;

/* Returns -1 and an exception if it cannot be told. */
static int is_fixed(Classes *classes, PyTypeObject *type) {
    if (type != classes->last) {
        int answer = PySet_Contains(classes->fixed, (PyObject *)type);
        if (answer < 0)
            return -1;
        classes->last = type;
        classes->is_fixed = answer;
    }
    return classes->is_fixed;
}

/* are_apart(items, fixed) -> bool. Objects of the classes of `fixed`, a frozenset, do not count.

   INVARIANT: the table has more than twice as many places as there are objects, so that a free one is found. */
static PyObject *are_apart(PyObject *module, PyObject *args) {
    PyObject *items, *fixed, *told = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &items, &PyFrozenSet_Type, &fixed))
        return NULL;
    Classes classes = {fixed, NULL, 0};
    const Py_ssize_t count = PyList_GET_SIZE(items);
    int bits = 4;
    while ((Py_ssize_t)1 << bits <= 2 * count)
        bits++;
    const size_t mask = ((size_t)1 << bits) - 1;
    PyObject **table = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        int skipped = is_fixed(&classes, Py_TYPE(item));
        if (skipped < 0)
            goto done;
        if (skipped)
            continue;
        if (!table && !(table = calloc(mask + 1, sizeof *table))) {
            PyErr_NoMemory();
            goto done;
        }
        size_t at = (size_t)((uint64_t)(uintptr_t)item * 0x9E3779B97F4A7C15u >> (64 - bits));
        while (table[at] && table[at] != item)
            at = (at + 1) & mask;
        if (table[at]) {
            told = Py_NewRef(Py_False);
            goto done;
        }
        table[at] = item;
    }
    told = Py_NewRef(Py_True);
done:
    free(table);
    return told;
}

static PyMethodDef METHODS[] = {{"are_apart", are_apart, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "penstock.native._apart", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__apart(void) { return PyModule_Create(&MODULE); }
