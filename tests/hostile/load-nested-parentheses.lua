-- Thousands of brackets, braces, functions, operators, blocks, one in the other.
-- expect: ok
for _, piece in ipairs { "(", "{", "function() return ", "not ", "- ", "a..", "a^", "a(", "a[", "{{[" } do
  assert(not load("return " .. piece:rep(20000)))
end
for _, piece in ipairs { "do ", "while a do ", "if a then ", "repeat ", "for i = 1, 2 do ", "function f() " } do
  assert(not load(piece:rep(20000)))
end
