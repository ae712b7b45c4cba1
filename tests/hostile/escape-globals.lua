-- The globals are exactly those of a list.
-- expect: ok
local allowed = {}
for name in ([[_G _VERSION assert collectgarbage coroutine debug error getmetatable ipairs load math next orrery os package
  pairs pcall print rawequal rawget rawlen rawset require select setmetatable string table tonumber tostring type utf8 warn
  xpcall]]):gmatch("%S+") do allowed[name] = true end
for name in pairs(_G) do assert(allowed[name], name) end
