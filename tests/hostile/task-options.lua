-- Options that are of the wrong type, or come from metamethods that fail.
-- expect: ok
local async = orrery.async
local nothing = function() end
for _, v in ipairs { -1, 0 / 0, math.huge, "x", {}, nothing, ("x"):rep(1 << 20) } do
  pcall(async.run, { name = v }, nothing)
  pcall(async.run, { deadline = v }, nothing)
  pcall(async.run, { detached = v, fair = v }, nothing)
  pcall(async.run, v, nothing)
  pcall(async.run, v)
  pcall(async.sleep, type(v) == "number" and v ~= v and v or "x")
end
pcall(async.run, setmetatable({}, { __index = error }), nothing)
