-- Too many locals, upvalues, constants, registers, labels or parameters: each a clear error.
-- expect: ok
local function list(n, name)
  local t = {}
  for i = 1, n do t[i] = name .. i end
  return table.concat(t, ",")
end
assert(not load("local " .. list(300, "a")))
assert(not load("local function f(" .. list(300, "a") .. ") end"))
assert(not load("f(" .. list(300, "a") .. ")"))
assert(not load(list(300, "a") .. " = 1"))
assert(load("return {" .. list(9000, "") .. "}"))
assert(not load("goto nowhere"))
assert(not load("::a:: ::a::"))
assert(not load("break"))
