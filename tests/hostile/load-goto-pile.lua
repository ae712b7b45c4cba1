-- Thirty thousand pending gotos that one label resolves, each by moving all the others.
-- expect: ok
local f = load("do " .. ("if a then goto x end "):rep(32000) .. " ::x:: end")
assert(f == nil or type(f) == "function")
