-- Errors while errors are handled, at the limit of the C stack, with long messages.
-- bug: CVE-2022-33099: the Lua stack overflows in an error at the C stack's limit; up to 5.4.4
-- stock: patched by Debian (5.4.4-3): an ordinary error
-- expect: any end
local function loop(x, y, z) return 1 + loop(x, y, z) end
local ok = xpcall(loop, loop)
assert(not ok)
if orrery then orrery.async.sleep(0) end
local function again() return xpcall(again, again) end
pcall(again)
if orrery then orrery.async.sleep(0) end
local long = ("x"):rep(1 << 12)
local mt = { __index = function(t, k) return t[k .. long] end }
assert(not pcall(function() return setmetatable({}, mt).x end))
