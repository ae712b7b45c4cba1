-- load with mode "b" must refuse text as well, or ignore the mode; nothing of it may crash.
-- expect: ok
local f = load("return 1", "chunk", "b")
assert(f == nil or f() == 1)
assert(load("return 1", "chunk", "t")() == 1)
