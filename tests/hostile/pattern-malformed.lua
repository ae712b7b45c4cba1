-- Patterns that end in the middle of something must not be read past their end.
-- expect: ok
for _, p in ipairs { "%", "[", "[^", "[a-", "[%", "[]", "%b", "%bx", "%f", "(", ")", "%1", "(%1", "(()", "[a-%", "\0[", "%f[" } do
  pcall(string.find, "abc\0def", p)
  pcall(string.gsub, "abc\0def", p, "%1")
  pcall(string.gsub, "abc", "b", p)
end
