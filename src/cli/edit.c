#include "cli/edit.h"

#include "cli/history.h"

#include <dlfcn.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

/* The functions of libedit that we use. */
static struct {
    EditLine *(*el_init)(const char *name, FILE *in, FILE *out, FILE *err);
    void (*el_end)(EditLine *el);
    int (*el_set)(EditLine *el, int what, ...);
    int (*el_get)(EditLine *el, int what, ...);
    const char *(*el_gets)(EditLine *el, int *count);
    const LineInfo *(*el_line)(EditLine *el);
    int (*el_insertstr)(EditLine *el, const char *text);
    void (*el_resize)(EditLine *el);
    History *(*history_init)(void);
    void (*history_end)(History *history);
    int (*history)(History *history, HistEvent *event, int what, ...);
} lib;

struct edit {
    EditLine *el;
    History *history;
    FILE *out;  /* the terminal itself: stdout may be another stream by then */
    char *file; /* the history file; NULL for none */
    const char *prompt;
    bool active; /* between edit_begin() and edit_stop() */
    char *line;  /* the last line that was returned */
    edit_complete_fn *complete;
    void *data;
};

static struct edit *opened; /* a process has one terminal */

/* A background task may call os.exit while the user types. */
static void give_terminal_back(void)
{
    if (opened)
        edit_stop(opened);
}

static bool load_library(void)
{
    static const struct {
        const char *name;
        void *place;
    } symbols[] = {
        { "el_init", &lib.el_init },
        { "el_end", &lib.el_end },
        { "el_set", &lib.el_set },
        { "el_get", &lib.el_get },
        { "el_gets", &lib.el_gets },
        { "el_line", &lib.el_line },
        { "el_insertstr", &lib.el_insertstr },
        { "el_resize", &lib.el_resize },
        { "history_init", &lib.history_init },
        { "history_end", &lib.history_end },
        { "history", &lib.history },
    };
    void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return false;
        /* Converts an object pointer to a function pointer. */
        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
    return library != NULL;
}

static struct edit *edit_of(EditLine *el)
{
    struct edit *edit = NULL;
    lib.el_get(el, EL_CLIENTDATA, (void *)&edit);
    return edit;
}

static char *prompt_of(EditLine *el)
{
    return (char *)edit_of(el)->prompt;
}

/* --- Completion ------------------------------------------------------------------------------- */

/* Shows them in columns, as a shell does. */
static void show_candidates(struct edit *edit, const char *list)
{
    enum { WIDTH = 24, COLUMNS = 3 };
    int column = 0;
    fputc('\n', edit->out);
    while (*list) {
        int length = (int)strcspn(list, "\n");
        bool last = ++column % COLUMNS == 0 || !list[length];
        fprintf(edit->out, "%-*.*s%s", last ? 0 : WIDTH, length, list, last ? "\n" : " ");
        list += length + (list[length] == '\n');
    }
}

/* Bound to the tab key. */
static unsigned char complete(EditLine *el, int key)
{
    struct edit *edit = edit_of(el);
    const LineInfo *line = lib.el_line(el);
    char *found = edit->complete(edit->data, line->buffer, (size_t)(line->cursor - line->buffer));
    (void)key;
    if (!found)
        return CC_REFRESH_BEEP;
    char *candidates = strchr(found, '\n');
    if (candidates)
        *candidates++ = '\0';
    unsigned char answer = CC_REFRESH;
    if (*found) {
        lib.el_insertstr(el, found);
    } else if (candidates) {
        show_candidates(edit, candidates);
        answer = CC_REDISPLAY;
    }
    free(found);
    return answer;
}

/* --- Life ------------------------------------------------------------------------------------- */

static void open_history(struct edit *edit)
{
    HistEvent event;
    edit->history = lib.history_init();
    if (!edit->history)
        return;
    lib.history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
    lib.history(edit->history, &event, H_SETUNIQUE, 1);
    edit->file = history_path();
    if (edit->file)
        lib.history(edit->history, &event, H_LOAD, edit->file);
    lib.el_set(edit->el, EL_HIST, lib.history, edit->history);
}

struct edit *edit_open(edit_complete_fn *complete_with, void *data)
{
    if (!load_library())
        return NULL;
    struct edit *edit = calloc(1, sizeof *edit);
    if (!edit)
        return NULL;
    setlocale(LC_CTYPE, ""); /* letters of several bytes count as one */
    edit->complete = complete_with;
    edit->data = data;
    int terminal = dup(STDOUT_FILENO);
    edit->out = terminal >= 0 ? fdopen(terminal, "w") : NULL;
    if (!edit->out && terminal >= 0)
        close(terminal);
    edit->el = edit->out ? lib.el_init("orrery", stdin, edit->out, stderr) : NULL;
    if (!edit->el) {
        edit_close(edit);
        return NULL;
    }
    lib.el_set(edit->el, EL_CLIENTDATA, edit);
    lib.el_set(edit->el, EL_PROMPT, prompt_of);
    lib.el_set(edit->el, EL_EDITOR, "emacs");
    lib.el_set(edit->el, EL_SIGNAL, 0);
    lib.el_set(edit->el, EL_ADDFN, "complete", "complete a name", complete);
    lib.el_set(edit->el, EL_BIND, "^I", "complete", NULL);
    lib.el_set(edit->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    open_history(edit);
    opened = edit;
    atexit(give_terminal_back);
    return edit;
}

void edit_close(struct edit *edit)
{
    if (!edit)
        return;
    opened = NULL;
    edit_stop(edit);
    if (edit->el)
        lib.el_end(edit->el);
    if (edit->history)
        lib.history_end(edit->history);
    if (edit->out)
        fclose(edit->out);
    free(edit->line);
    free(edit->file);
    free(edit);
}

void edit_begin(struct edit *edit, const char *prompt)
{
    edit->prompt = prompt;
    if (edit->active)
        return;
    lib.el_resize(edit->el);
    edit->active = true;
    lib.el_set(edit->el, EL_UNBUFFERED, 1);
}

void edit_stop(struct edit *edit)
{
    if (!edit->active)
        return;
    edit->active = false;
    lib.el_set(edit->el, EL_UNBUFFERED, 0);
}

const char *edit_key(struct edit *edit, bool *end)
{
    enum { CTRL_D = 4 }; /* the only byte of an empty line at the end of input */
    int count = 0;
    const char *text = lib.el_gets(edit->el, &count); /* NULL while the line is empty */
    *end = text && count == 1 && text[0] == CTRL_D;
    if (!text || count <= 0 || text[count - 1] != '\n')
        return NULL;
    free(edit->line);
    edit->line = strndup(text, (size_t)count - 1);
    edit_stop(edit);
    return edit->line;
}

/* --- Making room ------------------------------------------------------------------------------ */

void edit_hide(struct edit *edit)
{
    if (!edit->active)
        return;
    struct winsize size = { 0 };
    const LineInfo *line = lib.el_line(edit->el);
    size_t before = strlen(edit->prompt) + (size_t)(line->cursor - line->buffer);
    unsigned columns = !ioctl(fileno(edit->out), TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
    if (before / columns)
        fprintf(edit->out, "\033[%zuA", before / columns);
    fputs("\r\033[J", edit->out);
    fflush(edit->out);
}

void edit_show(struct edit *edit)
{
    if (edit->active)
        lib.el_set(edit->el, EL_REFRESH);
}

void edit_renew(struct edit *edit)
{
    if (!edit->active)
        return;
    lib.el_resize(edit->el);
    lib.el_set(edit->el, EL_PREP_TERM, 0); /* libedit believes that it still has the terminal */
    lib.el_set(edit->el, EL_PREP_TERM, 1);
    lib.el_set(edit->el, EL_REFRESH);
}

void edit_remember(struct edit *edit, const char *line)
{
    HistEvent event;
    if (!edit->history || !*line)
        return;
    lib.history(edit->history, &event, H_ENTER, line);
    if (edit->file)
        lib.history(edit->history, &event, H_SAVE, edit->file);
}
