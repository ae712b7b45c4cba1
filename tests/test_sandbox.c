/*
 * Untrusted scripts: what they can reach, that their library behaves as Lua's own and never takes
 * long, what they can require, and that scripts with their own globals cannot change anything for
 * others.
 */
#include "harness.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Fixtures --------------------------------------------------------------------------------- */

static int served = INT32_MAX; /* how many requests for memory are served */

static void *refusing_alloc(void *data, void *block, size_t old_size, size_t size)
{
    if (size && (size > old_size || !block) && served-- <= 0)
        return NULL;
    return counting_alloc(data, block, old_size, size);
}

static struct orr_runtime *rt;
static char noted[4096];

static int note(lua_State *L)
{
    for (int i = 1; i <= lua_gettop(L); i++) {
        size_t length = strlen(noted);
        snprintf(noted + length, sizeof noted - length, "%s;", luaL_tolstring(L, i, NULL));
        lua_pop(L, 1);
    }
    return 0;
}

static lua_State *open_sandboxed(struct orr_lua_options options)
{
    allocated_bytes = 0;
    noted[0] = '\0';
    rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = refusing_alloc });
    assert_non_null(rt);
    lua_State *L = NULL;
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    lua_register(L, "note", note);
    return L;
}

static lua_State *open_untrusted(void)
{
    return open_sandboxed((struct orr_lua_options){ .mount = "game" });
}

static void close_all(lua_State *L)
{
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void run(lua_State *L, const char *code)
{
    if (luaL_dostring(L, code))
        fail_msg("%s", lua_tostring(L, -1));
    lua_settop(L, 0);
}

/* Loads a script, with its own globals or not, and runs it as a task. */
static void run_task(lua_State *L, const char *code, bool own_globals)
{
    struct orr_lua_source source = { .name = "script", .text = code, .own_globals = own_globals };
    struct orr_task *task;
    if (orr_lua_load(L, &source))
        fail_msg("%s", lua_tostring(L, -1));
    assert_int_equal(orr_lua_start(L, 0, "script", &task), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    const struct orr_result *result = orr_task_result(task);
    if (result->error)
        fail_msg("%s", result->message);
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
}

/* --- What can be reached ---------------------------------------------------------------------- */

static const char *const allowed[] = {
    "_G.",
    "_VERSION",
    "assert",
    "collectgarbage",
    "error",
    "getmetatable",
    "ipairs",
    "load",
    "next",
    "pairs",
    "pcall",
    "print",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "require",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "xpcall",
    "coroutine.",
    "coroutine.close",
    "coroutine.create",
    "coroutine.isyieldable",
    "coroutine.resume",
    "coroutine.running",
    "coroutine.status",
    "coroutine.wrap",
    "coroutine.yield",
    "debug.",
    "debug.traceback",
    "math.",
    "math.abs",
    "math.acos",
    "math.asin",
    "math.atan",
    "math.ceil",
    "math.cos",
    "math.deg",
    "math.exp",
    "math.floor",
    "math.fmod",
    "math.huge",
    "math.log",
    "math.max",
    "math.maxinteger",
    "math.min",
    "math.mininteger",
    "math.modf",
    "math.pi",
    "math.rad",
    "math.random",
    "math.randomseed",
    "math.sin",
    "math.sqrt",
    "math.tan",
    "math.tointeger",
    "math.type",
    "math.ult",
    "math.atan2",
    "math.cosh",
    "math.frexp",
    "math.ldexp",
    "math.log10",
    "math.pow",
    "math.sinh",
    "math.tanh",
    "os.",
    "os.clock",
    "os.date",
    "os.difftime",
    "os.time",
    "string.",
    "string.byte",
    "string.char",
    "string.find",
    "string.format",
    "string.gmatch",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.pack",
    "string.packsize",
    "string.rep",
    "string.reverse",
    "string.sub",
    "string.unpack",
    "string.upper",
    "table.",
    "table.concat",
    "table.insert",
    "table.move",
    "table.pack",
    "table.remove",
    "table.sort",
    "table.unpack",
    "utf8.",
    "utf8.char",
    "utf8.charpattern",
    "utf8.codepoint",
    "utf8.codes",
    "utf8.len",
    "utf8.offset",
};

enum { ALLOWED = sizeof allowed / sizeof *allowed };

static int find_allowed(const char *name)
{
    for (int i = 0; i < ALLOWED; i++)
        if (!strcmp(allowed[i], name))
            return i;
    return -1;
}

static void scripts_have_every_name_on_the_list_and_no_other(void **state)
{
    (void)state;
    lua_State *L = open_sandboxed((struct orr_lua_options){ 0 });
    lua_pushnil(L);
    lua_setglobal(L, "note");
    assert_int_equal(luaL_dostring(L, "local names, seen = {}, { [_G] = true }\n"
                                      "for name, value in next, _G do\n"
                                      "  names[#names + 1] = type(value) == 'table' and name .. '.' or name\n"
                                      "  if type(value) == 'table' and not seen[value] then\n"
                                      "    seen[value] = true\n"
                                      "    for inner, field in next, value do\n"
                                      "      names[#names + 1] = name .. '.' .. inner\n"
                                      "      assert(type(field) ~= 'table' and getmetatable(value) == nil)\n"
                                      "    end\n"
                                      "  end\n"
                                      "end return names"),
                     LUA_OK);
    assert_int_equal(lua_rawlen(L, -1), ALLOWED);
    for (int i = 1; i <= ALLOWED; i++) {
        lua_rawgeti(L, -1, i);
        if (find_allowed(lua_tostring(L, -1)) < 0)
            fail_msg("%s can be reached", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    close_all(L);
}

/*
 * Marks everything that can be reached from the value at the top, also through upvalues, in the
 * table at 1.
 */
static void walk(lua_State *L)
{
    luaL_checkstack(L, 8, NULL);
    int type = lua_type(L, -1);
    if (type != LUA_TTABLE && type != LUA_TFUNCTION && type != LUA_TUSERDATA)
        return;
    lua_pushvalue(L, -1);
    bool known = lua_rawget(L, 1) != LUA_TNIL;
    lua_pop(L, 1);
    if (known)
        return;
    lua_pushvalue(L, -1);
    lua_pushboolean(L, true);
    lua_rawset(L, 1);
    if (lua_getmetatable(L, -1)) {
        walk(L);
        lua_pop(L, 1);
    }
    if (type == LUA_TFUNCTION)
        for (int i = 1; lua_getupvalue(L, -1, i); i++) {
            walk(L);
            lua_pop(L, 1);
        }
    if (type == LUA_TTABLE)
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            walk(L);
            lua_pushvalue(L, -2);
            walk(L);
            lua_pop(L, 1);
        }
}

/* C functions of the libraries of a plain Lua that must not be reachable. */
static int forbidden(lua_State *plain, lua_CFunction *list)
{
    static const char code[] = "local list, safe = {}, {}\n"
                               "for name in (...):gmatch '[^ ]+' do safe[name] = true end\n"
                               "for library, t in pairs(package.loaded) do for name, f in pairs(t) do\n"
                               "  if type(f) == 'function' and not safe[library .. '.' .. name]\n"
                               "    then list[#list + 1] = f end\n"
                               "end end\n"
                               "for _, f in pairs(package.searchers) do list[#list + 1] = f end\n"
                               "for _, f in pairs(getmetatable(io.stdout).__index) do list[#list + 1] = f end\n"
                               "return list";
    char safe[8192] = "_G.coroutine ";
    for (int i = 0; i < ALLOWED; i++) {
        strcat(safe, strchr(allowed[i], '.') ? "" : "_G.");
        strcat(strcat(safe, allowed[i]), " ");
    }
    assert_int_equal(luaL_loadstring(plain, code), LUA_OK);
    lua_pushstring(plain, safe);
    assert_int_equal(lua_pcall(plain, 1, 1, 0), LUA_OK);
    int count = 0;
    for (int i = 1; i <= (int)lua_rawlen(plain, -1); i++) {
        lua_rawgeti(plain, -1, i);
        list[count++] = lua_tocfunction(plain, -1);
        lua_pop(plain, 1);
    }
    return count;
}

static void nothing_forbidden_can_be_reached_from_what_scripts_have(void **state)
{
    (void)state;
    lua_State *plain = luaL_newstate();
    luaL_openlibs(plain);
    lua_CFunction list[256];
    int count = forbidden(plain, list);
    assert_true(count > 50);
    lua_State *L = open_untrusted();
    lua_newtable(L);
    lua_pushglobaltable(L);
    walk(L);
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    walk(L);
    int functions = 0;
    lua_settop(L, 1);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        lua_CFunction f = lua_tocfunction(L, -2);
        functions += f != NULL;
        for (int i = 0; f && i < count; i++)
            assert_false(f == list[i]);
        lua_pushvalue(L, LUA_REGISTRYINDEX);
        assert_false(lua_rawequal(L, -1, -3));
        lua_pop(L, 1);
    }
    assert_true(functions > 100);
    lua_settop(L, 0);
    lua_close(plain);
    close_all(L);
}

static void metatables_are_out_of_reach_and_finalizers_refused(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run(L, "note(getmetatable(''), pcall(setmetatable, '', {}))\n"
           "note(getmetatable(game.async.event()), getmetatable(game.loop.new_timer()))\n"
           "for _, gc in ipairs { print, true, false, 0 } do\n"
           "  local ok, e = pcall(setmetatable, {}, { __gc = gc }) note(ok, e:match '__gc')\n"
           "end\n"
           "local m = {} local t = setmetatable({}, m) m.__gc = function() note 'finalized' end\n"
           "note(pcall(setmetatable, {}, m)) t = nil\n"
           "for i = 1, 200 do collectgarbage 'step' end\n"
           "string.dump = 1 string.dump = nil note(('x').dump)");
    assert_string_equal(
        noted, "false;false;bad argument #1 to 'setmetatable' (table expected, got string);false;false;"
               "false;__gc;false;__gc;false;__gc;false;__gc;"
               "false;setmetatable: untrusted scripts can have no finalizers; remove '__gc' from the metatable;nil;");
    close_all(L);
}

/* --- The same as Lua's own -------------------------------------------------------------------- */

static const char *answers(lua_State *L, int seed)
{
    if (luaL_loadfile(L, TESTS "/lua/same.lua"))
        fail_msg("%s", lua_tostring(L, -1));
    lua_pushinteger(L, seed);
    if (lua_pcall(L, 1, 1, 0))
        fail_msg("%s", lua_tostring(L, -1));
    return lua_tostring(L, -1);
}

static void compare_lines(const char *expected, const char *got)
{
    for (int line = 1; *expected || *got; line++) {
        size_t a = strcspn(expected, "\n"), b = strcspn(got, "\n");
        if (a != b || memcmp(expected, got, a) != 0)
            fail_msg("answer %d is\n  %.*s\nand not\n  %.*s", line, (int)b, got, (int)a, expected);
        expected += a + (expected[a] != '\0');
        got += b + (got[b] != '\0');
    }
}

static void functions_return_and_raise_what_luas_own_do(void **state)
{
    (void)state;
    int seed = (int)harness_seed(1);
    for (int i = 0; i < 3; i++) {
        lua_State *plain = luaL_newstate();
        luaL_openlibs(plain);
        lua_State *L = open_untrusted();
        compare_lines(answers(plain, seed + i), answers(L, seed + i));
        lua_settop(L, 0);
        lua_close(plain);
        close_all(L);
    }
}

/* --- Calls that never end --------------------------------------------------------------------- */

/* How often the hook is called before it raises an error. */
static int instructions;

static void count_down(lua_State *L, lua_Debug *info)
{
    (void)info;
    if (--instructions < 0)
        luaL_error(L, "interrupted");
}

static const char *raised(lua_State *L, const char *code)
{
    instructions = 200;
    lua_sethook(L, count_down, LUA_MASKCOUNT, 1000);
    int status = luaL_dostring(L, code);
    lua_sethook(L, NULL, 0, 0);
    if (!status)
        return "nothing";
    return lua_tostring(L, -1);
}

static void endless_library_calls_are_interrupted_or_refused(void **state)
{
    (void)state;
    static const char *const bombs[][2] = {
        { "table.move({}, 1, 1e15, 2)", "interrupted" },
        { "table.move(setmetatable({}, { __index = function() return 1 end }), 1, 1e15, 2, {})", "interrupted" },
        { "table.concat(setmetatable({}, { __index = function() return '' end }), '', 1, 1e15)", "interrupted" },
        { "table.insert(setmetatable({}, { __len = function() return 1e15 // 1 | 0 end }), 1, 1)", "interrupted" },
        { "table.remove(setmetatable({}, { __len = function() return 1e15 // 1 | 0 end }), 1)", "interrupted" },
        { "table.sort(setmetatable({}, { __len = function() return 2^30 // 1 | 0 end }))", "interrupted" },
        { "table.sort({ 3, 2, 1 }, function() while true do end end)", "interrupted" },
        { "tostring(setmetatable({}, { __tostring = function() while true do end end }))", "interrupted" },
        { "print(setmetatable({}, { __tostring = function() while true do end end }))", "interrupted" },
        { "string.format('%s', setmetatable({}, { __tostring = function() while true do end end }))", "interrupted" },
        { "load(function() return ' ' end)", "interrupted" },
        { "return ('x'):rep(1e9)", "resulting string too large" },
        { "return ('x'):rep(8 * 1024 * 1024 + 1)", "resulting string too large" },
        { "return (''):rep(1e15)", "nothing" },
        { "return ('x'):rep(1e18, 'yyyyyyyyyyyyyyyyyy')", "resulting string too large" },
        { "local s = ('x'):rep(1e6) return table.concat({ s, s, s, s, s, s, s, s, s })", "resulting string too large" },
        { "local s = ('x'):rep(1e6) local t = {} for i = 1, 1e4 do t[i] = s end return table.concat(t)",
          "resulting string too large" },
        { "local s = ('x'):rep(1e6) return ('%s%s%s%s%s%s%s%s%s'):format(s, s, s, s, s, s, s, s, s)",
          "resulting string too large" },
        { "return ('c2000000000'):pack('')", "resulting string too large" },
        { "return ('x'):rep(1e6):pack()", "format is too long" },
        { "return ('x'):rep(1e6):packsize()", "format is too long" },
        { "return os.date(('%c'):rep(1e5))", "format is too long" },
        { "return table.unpack({}, 1, 65537)", "too many results to unpack" },
        { "return table.unpack({}, 1, 1e15)", "too many results to unpack" },
        { "return ('x'):rep(65537):byte(1, -1)", "string slice too long" },
        { "return utf8.codepoint(('x'):rep(1e6), 1, -1)", "string slice too long" },
        { "collectgarbage()", "refused" },
        { "collectgarbage 'stop'", "refused" },
        { "collectgarbage 'generational'", "refused" },
        { "collectgarbage('step', 1e9)", "nothing" },
        { "load(('\\27Lua'))()", "attempt to call a nil value" },
    };
    lua_State *L = open_untrusted();
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        const char *got = raised(L, bombs[i][0]);
        if (!strstr(got, bombs[i][1]))
            fail_msg("%s: %s", bombs[i][0], got);
        lua_settop(L, 0);
    }
    close_all(L);
}

static unsigned yields;

static void yield_now(lua_State *L, lua_Debug *info)
{
    (void)info;
    if (lua_isyieldable(L)) {
        yields++;
        lua_yield(L, 0);
    }
}

/* A host that takes turns with the script. */
static void long_library_calls_can_be_suspended(void **state)
{
    (void)state;
    static const char *const works[] = {
        "local t = {} for i = 1, 20000 do t[i] = i * 7919 % 20011 end return t,\n"
        "  function(t) table.sort(t, function(a, b) return a < b end) for i = 2, #t do assert(t[i - 1] < t[i]) end end",
        "return setmetatable({}, { __index = function(_, i) return i end, __len = function() return 20000 end }),\n"
        "  function(t) assert(#table.concat(t) == 88894) assert(select('#', table.unpack(t)) == 20000) end",
        "local t = {} for i = 1, 2e6 do t[i] = i end return t,\n"
        "  function(t) table.insert(t, 1, 0) assert(t[2e6 + 1] == 2e6) table.move(t, 1, 2e6, 2) assert(t[1] == t[2]) "
        "end",
        "return setmetatable({}, { __tostring = function() local n = 0 for i = 1, 1e5 do n = n + 1 end return 'x' .. n "
        "end }),\n"
        "  function(t) assert(tostring(t) == 'x100000' and ('%s %s'):format(t, t) == 'x100000 x100000') end",
        "return (' '):rep(50), function(s) local n = 0\n"
        "  assert(load(function() n = n + 1 return n < 1000 and s or n == 1000 and 'return 5' or nil end)() == 5) end",
        "return ('\xC3\xA9'):rep(1e6), function(s) assert(utf8.len(s) == 1e6 and #s:upper() == 2e6 and #s:reverse() == "
        "2e6) end",
    };
    lua_State *L = open_untrusted();
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        lua_State *co = lua_newthread(L);
        assert_int_equal(luaL_dostring(co, works[i]), LUA_OK);
        lua_insert(co, 1);
        yields = 0;
        lua_sethook(co, yield_now, LUA_MASKCOUNT, 100);
        int results, status = lua_resume(co, L, 1, &results);
        while (status == LUA_YIELD)
            status = lua_resume(co, L, 0, &results);
        if (status != LUA_OK)
            fail_msg("%s: %s", works[i], lua_tostring(co, -1));
        print_message("suspended %u times\n", yields);
        assert_true(yields > 5);
    }
    lua_settop(L, 0);
    close_all(L);
}

static void sort_ends_whatever_the_comparison_answers(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run(L, "for _, less in ipairs { function() return true end, function() return false end,\n"
           "    function() return math.random() < .5 end, function(a, b) return a <= b end } do\n"
           "  for n = 0, 300 do\n"
           "    local t, sum = {}, 0\n"
           "    for i = 1, n do t[i] = i end\n"
           "    table.sort(t, less)\n"
           "    for i = 1, n do sum = sum + t[i] end\n"
           "    assert(#t == n and sum == n * (n + 1) // 2)\n"
           "  end\n"
           "end\n"
           "local nan = 0/0 local t = {} for i = 1, 9000 do t[i] = i % 3 == 0 and nan or i end pcall(table.sort, t)");
    close_all(L);
}

static void metamethods_that_functions_call_may_wait(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run_task(
        L,
        "local sleep = game.async.sleep\n"
        "local slow = setmetatable({}, { __tostring = function() sleep(5) return 'slow' end,\n"
        "  __index = function(_, i) sleep(1) if i < 4 then return i end end, __len = function() sleep(1) return 3 end "
        "})\n"
        "note(tostring(slow), string.format('%s,%s', slow, slow), table.concat(slow, '+'), table.unpack(slow))\n"
        "for i in ipairs(slow) do note(i) end\n"
        "local t = { 3, 1, 2 } table.sort(t, function(a, b) sleep(1) return a < b end) note(table.concat(t, ' '))\n"
        "note(load(function() sleep(1) end) ~= nil)",
        false);
    assert_string_equal(noted, "slow;slow,slow;1+2+3;1;2;3;1;2;3;1 2 3;true;");
    close_all(L);
}

static void library_functions_do_not_depend_on_globals(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run_task(L,
             "local async, note, keep = game.async, note, {}\n"
             "local sort, concat, load = table.sort, table.concat, load\n"
             "for name, value in next, _G do keep[#keep + 1] = name end\n"
             "for _, t in next, { string, table, math, utf8, os, coroutine, debug, game.async, game.loop, game } do\n"
             "  for name in next, t do t[name] = nil end\n"
             "end\n"
             "for _, name in next, keep do _ENV[name] = nil end\n"
             "local t = { 3, 1, 2 }\n"
             "sort(t, function(a, b) return a < b end) note(concat(t, ' '))\n",
             false);
    assert_string_equal(noted, "1 2 3;");
    close_all(L);
}

/* --- require ---------------------------------------------------------------------------------- */

static char folder[64];

static void put(const char *path, const char *text)
{
    char full[160];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void in_folder(const char *path, int (*make)(const char *))
{
    char full[160];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    assert_int_equal(make(full), 0);
}

static int make_folder(const char *path)
{
    return mkdir(path, 0700);
}

static void link_to(const char *target, const char *path)
{
    char full[160];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    assert_int_equal(symlink(target, full), 0);
}

static int make_files(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/orrery-sandbox-XXXXXX");
    assert_non_null(mkdtemp(folder));
    in_folder("root", make_folder);
    in_folder("root/a", make_folder);
    in_folder("root/pack", make_folder);
    put("secret.lua", "return 'secret'");
    put("root/one.lua", "#!/usr/bin/lua\nreturn { name = ..., path = select(2, ...) }");
    put("root/a/b.lua", "error 'raised'");
    put("root/pack/init.lua", "return 'a package'");
    put("root/broken.lua", "x = = 1");
    put("root/code.lua", "\033Lua");
    put("root/loop.lua", "return require 'loop'");
    put("root/waits.lua", "note 'loading' game.async.sleep(10) return { 'waited' }");
    put("root/marks.lua", "mark = (mark or 0) + 1 return { mark = mark }");
    link_to("../secret.lua", "root/linked.lua");
    link_to("..", "root/out");
    link_to("a", "root/inside");
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command); /* NOLINT */
}

static lua_State *open_rooted(void)
{
    static char root[96];
    snprintf(root, sizeof root, "%s/root", folder);
    static const char *const roots[] = { root, NULL };
    return open_sandboxed((struct orr_lua_options){ .mount = "game", .roots = roots });
}

static void modules_come_from_the_roots_and_from_nowhere_else(void **state)
{
    (void)state;
    lua_State *L = open_rooted();
    run_task(L,
             "local one = require 'one'\n"
             "note(one.name, one.path, require 'one' == one, require 'pack', require 'orrery' == game, require "
             "'string' == string)\n"
             "for _, name in ipairs { '..secret', '../secret', 'a.../secret', '/etc/passwd', 'one.lua', 'linked', "
             "'out.secret',\n"
             "    'inside.b', 'missing', 'a', '', '.', 'a.', '.one', 'one\\0', 'a/b', 'one\\0.x', ('x'):rep(1000), "
             "'a.b.c', 'io' } do\n"
             "  local ok, e = pcall(require, name)\n"
             "  assert(not ok and e:find 'not found', name)\n"
             "  assert(not e:find '/tmp', e)\n"
             "end\n"
             "note(select(2, pcall(require, 'a.b')), select(2, pcall(require, 'broken')))\n"
             "note(select(2, pcall(require, 'code')), select(2, pcall(require, 'loop')):match 'requires itself')\n"
             "note(select(2, pcall(require, 'linked')):match 'symbolic')",
             false);
    assert_string_equal(
        noted, "one;one.lua;true;a package;true;true;a/b.lua:1: raised;"
               "error loading module 'broken' from file 'broken.lua':\n\tbroken.lua:1: unexpected symbol near '=';"
               "error loading module 'code' from file 'code.lua':\n\tattempt to load a binary chunk (mode is 't');"
               "requires itself;symbolic;");
    close_all(L);
}

static void modules_may_wait_while_they_load(void **state)
{
    (void)state;
    lua_State *L = open_rooted();
    run_task(L,
             "local a = game.async\n"
             "local r = a.await_all { a.run(require, 'waits'), a.run(require, 'waits') }\n"
             "note(r[1][1] == r[2][1], r[1][1][1])",
             false);
    assert_string_equal(noted, "loading;true;waited;");
    close_all(L);
}

static void missing_roots_are_an_error(void **state)
{
    (void)state;
    unsigned fds = harness_open_fds();
    rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
    unsigned before = harness_open_fds();
    lua_State *L;
    const char *const roots[] = { folder, "/nowhere/at/all", NULL };
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .roots = roots }, &L), -ENOENT);
    assert_non_null(strstr(harness_log(), "/nowhere/at/all"));
    assert_int_equal(harness_open_fds(), before);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(harness_open_fds(), fds);
}

static int open_module(lua_State *L)
{
    lua_newtable(L);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "name");
    return 1;
}

static void host_registers_modules_in_both_profiles(void **state)
{
    (void)state;
    for (int profile = ORR_LUA_UNTRUSTED; profile <= ORR_LUA_TRUSTED; profile++) {
        lua_State *L = open_sandboxed((struct orr_lua_options){ .profile = (enum orr_lua_profile)profile });
        lua_pushcfunction(L, open_module);
        assert_int_equal(orr_lua_register(L, "host.made"), 0);
        lua_pushinteger(L, 42);
        assert_int_equal(orr_lua_register(L, "answer"), 0);
        lua_pushnil(L);
        assert_int_equal(orr_lua_register(L, "nothing"), -EINVAL);
        lua_settop(L, 0);
        assert_int_equal(orr_lua_register(L, "nothing"), -EINVAL);
        lua_pushinteger(L, 1);
        assert_int_equal(orr_lua_register(L, ""), -EINVAL);
        run_task(L, "note(require 'host.made'.name, require 'host.made' == require 'host.made', (require 'answer'))",
                 false);
        assert_string_equal(noted, "host.made;true;42;");
        lua_settop(L, 0);
        close_all(L);
    }
}

/* --- Scripts with their own globals ----------------------------------------------------------- */

static void scripts_with_their_own_globals_do_not_see_those_of_others(void **state)
{
    (void)state;
    lua_State *L = open_rooted();
    run_task(L,
             "x = 1 print = nil _G.y = 2 load 'z = 3' () note(x, y, z, _G.x, print == nil, require 'marks'.mark, mark)",
             true);
    run_task(L, "note(x, y, z, type(print), require 'marks'.mark, mark, _G._G == _G, rawget(_G, 'note'))", true);
    run_task(L, "note(x, y, z, type(print), mark) shared = { 1, { 2 } }", false);
    run_task(L, "note(shared[1], shared[2][1], #shared, pcall(function() shared[1] = 2 end))", true);
    assert_string_equal(noted, "1;2;3;1;false;1;1;nil;nil;nil;function;1;1;true;nil;nil;nil;nil;function;nil;"
                               "1;2;2;false;script:1: attempt to change a read-only table (shared);");
    close_all(L);
}

static void scripts_with_their_own_globals_change_nothing_for_others(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    lua_newtable(L);
    lua_pushinteger(L, 7);
    lua_setfield(L, -2, "seven");
    assert_int_equal(orr_lua_register(L, "settings"), 0);
    run_task(
        L,
        "local tries = 0\n"
        "local function try(t)\n"
        "  for _, change in ipairs { function() t.x = 1 end, function() t.format = 1 end, function() rawset(t, 'x', 1) "
        "end,\n"
        "      function() table.insert(t, 1) end, function() setmetatable(t, {}) end, function() table.move({ 1 }, 1, "
        "1, 1, t) end,\n"
        "      function() load('x = 1', 'n', 't', t)() end, function() table.sort(t) t[1] = 1 end } do\n"
        "    tries = tries + 1\n"
        "    assert(not pcall(change))\n"
        "  end\n"
        "  assert(getmetatable(t) == false and next(t) == nil)\n"
        "end\n"
        "local o = require 'orrery'\n"
        "for _, t in ipairs { string, table, math, os, utf8, debug, coroutine, game, game.async, game.loop, o, "
        "o.async,\n"
        "    require 'string', require 'settings', require 'orrery'.async } do try(t) end\n"
        "note(tries, require 'settings'.seven, rawequal(game, o), string.format('%d', 3), ('x'):rep(2))\n"
        "local n = 0 for k, v in pairs(string) do n = n + 1 assert(string[k] == v) end note(n)\n"
        "load, require, _G = nil, nil, nil note(load, require, type(_G)) try(_G)\n"
        "for k, v in pairs(_G) do assert(k ~= 'load' or v == nil) if type(v) == 'table' then try(v) end end\n"
        "note(_G.load, _G.string.format == string.format)\n"
        "local e = game.async.event() game.async.run(function() game.async.sleep(1) e:set() end) e:wait() note 'set'",
        true);
    run_task(L, "note(string.x, table.x, game.x, game.async.x, string.format('%d', 3), type(load), type(require))",
             false);
    assert_string_equal(noted, "120;7;true;3;xx;16;nil;nil;table;nil;true;set;nil;nil;nil;nil;3;function;function;");
    close_all(L);
}

static void scripts_with_their_own_globals_have_events(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run_task(L,
             "local events = require 'orrery'.events\n"
             "id = events:on({ 'x', 'y' }, function(data) note('one', data) end)\n"
             "game.events:once('x', function() note 'once' end)\n"
             "note(#events:list(), events:list('y')[1].id == id, events:emit('x', 1), #events:list())\n"
             "for _, method in ipairs { 'on', 'once', 'off', 'emit', 'list', 'clear' } do\n"
             "  local ok, why = pcall(events[method], 'x', print)\n"
             "  note(ok, (why:gsub('^.-:%d+: ', '')))\n"
             "end\n"
             "note(pcall(events.on, { 'x' }, print))\n",
             true);
    assert_string_equal(noted, "one;1;once;3;true;2;2;false;events:on: call it with a colon;"
                               "false;events:once: call it with a colon;false;events:off: call it with a colon;"
                               "false;events:emit: call it with a colon;false;events:list: call it with a colon;"
                               "false;events:clear: call it with a colon;false;events:on: call it with a colon;");
    close_all(L);
}

/* Scripts loaded by hand.  Those with their own globals are scripts of their own. */
static void scripts_with_their_own_globals_have_their_own_handlers(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run_task(L, "game.events:on('x', function() note 'shared' end)", false);
    run_task(L, "game.events:on('x', function() note 'one' end) note(#game.events:list())", true);
    run_task(L,
             "local events = game.events\n"
             "local id = events:on('x', function() note 'two' end)\n"
             "note(#events:list(), #events:list 'x', events:off(1), events:off('x', 2), id)\n"
             "events:clear() events:clear 'x' note(#events:list(), events:emit 'x')",
             true);
    run_task(L, "note(#game.events:list())", false);
    assert_string_equal(noted, "1;1;1;false;false;3;shared;one;0;2;1;");
    close_all(L);
}

static void changes_by_the_host_are_seen_by_scripts(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    run_task(L, "note(later)", true);
    run(L, "later = 'now' function print() return 'ours' end function string.more() return 'more' end");
    run_task(L, "note(later, print(), string.more())", true);
    assert_string_equal(noted, "nil;now;ours;more;");
    close_all(L);
}

static void scripts_are_loaded_from_text_and_from_files(void **state)
{
    (void)state;
    lua_State *L = open_untrusted();
    char path[96];
    snprintf(path, sizeof path, "%s/root/one.lua", folder);
    struct orr_lua_source file = { .path = path, .name = "=one" };
    assert_int_equal(orr_lua_load(L, &file), 0);
    lua_pushliteral(L, "x");
    assert_int_equal(lua_pcall(L, 1, 1, 0), LUA_OK);
    lua_settop(L, 0);
    file.path = "/nowhere.lua";
    assert_int_equal(orr_lua_load(L, &file), -ENOENT);
    file.path = folder;
    assert_int_equal(orr_lua_load(L, &file), -EISDIR);
    struct orr_lua_source text = { .text = "x = =", .name = "bad.lua" };
    assert_int_equal(lua_gettop(L), 0);
    assert_int_equal(orr_lua_load(L, &text), -EPROTO);
    assert_string_equal(lua_tostring(L, -1), "bad.lua:1: unexpected symbol near '='");
    lua_settop(L, 0);
    text = (struct orr_lua_source){ .text = "\033Lua", .own_globals = true };
    assert_int_equal(orr_lua_load(L, &text), -EPROTO);
    lua_settop(L, 0);
    size_t size = ((size_t)128 << 10) + 1;
    char *large = malloc(size + 1);
    memset(large, ' ', size);
    large[size] = '\0';
    text = (struct orr_lua_source){ .text = large, .size = size };
    assert_int_equal(orr_lua_load(L, &text), -EFBIG);
    text.size--;
    assert_int_equal(orr_lua_load(L, &text), 0);
    lua_settop(L, 0);
    free(large);
    text = (struct orr_lua_source){ .text = "return 1", .path = "x" };
    assert_int_equal(orr_lua_load(L, &text), -EINVAL);
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ 0 }), -EINVAL);
    assert_int_equal(orr_lua_load(L, NULL), -EINVAL);
    close_all(L);
    L = open_sandboxed((struct orr_lua_options){ .profile = ORR_LUA_TRUSTED });
    text = (struct orr_lua_source){ .text = "return io", .own_globals = true };
    assert_int_equal(orr_lua_load(L, &text), -ENOTSUP);
    text.own_globals = false;
    assert_int_equal(orr_lua_load(L, &text), 0);
    close_all(L);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* True if there was enough memory. */
static bool run_with_memory_for(int allocations)
{
    static const char code[] =
        "local t = {} for i = 1, 9000 do t[i] = i end\n"
        "table.sort(t, function(a, b) return a > b end) local s = table.concat(t, ',')\n"
        "x = s:rep(3):upper() .. string.format('%s', setmetatable({}, { __tostring = function() return s end }))\n"
        "load('y = 1')() require 'one' pcall(require, 'broken') for k in pairs(string) do x = k end\n"
        "table.insert(t, 1, 1) table.move(t, 1, 9000, 2) return utf8.len(s)";
    static char root[96];
    snprintf(root, sizeof root, "%s/root", folder);
    const char *const roots[] = { root, NULL };
    allocated_bytes = 0;
    served = INT32_MAX;
    rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = refusing_alloc });
    served = allocations;
    lua_State *L = NULL;
    int error = orr_lua_new(rt, &(struct orr_lua_options){ .roots = roots }, &L);
    assert_true(error == 0 || error == -ENOMEM);
    if (!error) {
        lua_pushboolean(L, true);
        error = orr_lua_register(L, "one.more");
        assert_true(error == 0 || error == -ENOMEM);
        assert_int_equal(lua_gettop(L), 0);
        error = orr_lua_load(L, &(struct orr_lua_source){ .text = code, .own_globals = true });
        assert_true(error == 0 || error == -ENOMEM);
        assert_int_equal(lua_gettop(L), error == 0);
        if (!error)
            orr_lua_start(L, 0, "script", NULL);
        orr_runtime_run(rt);
        lua_settop(L, 0);
        assert_int_equal(orr_lua_close(L), 0);
    }
    bool enough = served > 0;
    served = INT32_MAX;
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    return enough;
}

static void memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    unsigned fds = harness_open_fds();
    int points = 0;
    while (!run_with_memory_for(points))
        points += 7;
    print_message("%d points of failure\n", points);
    assert_true(points > 500);
    assert_int_equal(harness_open_fds(), fds);
}

static const struct CMUnitTest sandbox[] = {
    cmocka_unit_test(scripts_have_every_name_on_the_list_and_no_other),
    cmocka_unit_test(nothing_forbidden_can_be_reached_from_what_scripts_have),
    cmocka_unit_test(metatables_are_out_of_reach_and_finalizers_refused),
    cmocka_unit_test(functions_return_and_raise_what_luas_own_do),
    cmocka_unit_test(endless_library_calls_are_interrupted_or_refused),
    cmocka_unit_test(long_library_calls_can_be_suspended),
    cmocka_unit_test(sort_ends_whatever_the_comparison_answers),
    cmocka_unit_test(metamethods_that_functions_call_may_wait),
    cmocka_unit_test(library_functions_do_not_depend_on_globals),
    cmocka_unit_test_setup_teardown(modules_come_from_the_roots_and_from_nowhere_else, make_files, remove_files),
    cmocka_unit_test_setup_teardown(modules_may_wait_while_they_load, make_files, remove_files),
    cmocka_unit_test_setup_teardown(missing_roots_are_an_error, make_files, remove_files),
    cmocka_unit_test(host_registers_modules_in_both_profiles),
    cmocka_unit_test_setup_teardown(scripts_with_their_own_globals_do_not_see_those_of_others, make_files,
                                    remove_files),
    cmocka_unit_test(scripts_with_their_own_globals_change_nothing_for_others),
    cmocka_unit_test(scripts_with_their_own_globals_have_events),
    cmocka_unit_test(scripts_with_their_own_globals_have_their_own_handlers),
    cmocka_unit_test(changes_by_the_host_are_seen_by_scripts),
    cmocka_unit_test_setup_teardown(scripts_are_loaded_from_text_and_from_files, make_files, remove_files),
    cmocka_unit_test_setup_teardown(memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing, make_files,
                                    remove_files),
};

HARNESS_MAIN(sandbox)
