-- Bitwise operations with constants, in a function that has more than 255 of them.
-- bug: wrong registers for constants that do not fit into the instruction; 5.4.0 to 5.4.4
-- stock: no wrong result seen
-- expect: ok
local many = {}
for i = 1, 300 do many[i] = i .. ".25" end
local head = "local x = ... local _ = {" .. table.concat(many, ",") .. "} return "
for _, e in ipairs { "7654321 & x", "x & 7654321", "7654321 | x", "x ~ 7654321", "7654321 ~ x", "1 << x", "7654321.0 & x" } do
  local f, g = load(head .. e), load("local x = ... return " .. e)
  assert(f(5) == g(5), e)
end
