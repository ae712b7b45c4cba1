-- Raises Lua's own text for lack of memory: lua_error turns it into LUA_ERRMEM, without a handler.
-- expect: ok
-- So the host must not trust the status alone; it checks the memory account.
local handled = false
local ok, err = xpcall(error, function(e) handled = true return e end, "not enough memory", 0)
assert(not ok and err == "not enough memory")
assert(handled or not handled)
local task = orrery.async.run(error, "not enough memory", 0)
assert(not orrery.async.pawait(task))
