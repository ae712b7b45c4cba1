-- No io, and nothing of os that reaches outside or changes the whole process.
-- expect: ok
assert(io == nil)
if os then
  for _, name in ipairs { "execute", "exit", "getenv", "remove", "rename", "tmpname", "setlocale" } do
    assert(os[name] == nil, name)
  end
end
assert(dofile == nil and loadfile == nil and loadstring == nil)
