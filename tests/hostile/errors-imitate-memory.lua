-- The script raises Lua's own text for lack of memory: lua_error then makes a real LUA_ERRMEM of it, and no handler runs.
-- expect: ok
-- So the host must not believe the status alone; the account knows better.
local handled = false
local ok, err = xpcall(error, function(e) handled = true return e end, "not enough memory", 0)
assert(not ok and err == "not enough memory")
assert(handled or not handled)
local task = orrery.async.run(error, "not enough memory", 0)
assert(not orrery.async.pawait(task))
