-- No package library: no loaders, no paths, no C libraries.
-- expect: ok
if package then
  assert(package.loadlib == nil and package.cpath == nil and package.searchers == nil and package.searchpath == nil)
  if package.loaded then
    for _, name in ipairs { "io", "debug", "package" } do
      local m = package.loaded[name]
      assert(m == nil or not (m.open or m.sethook or m.loadlib), name)
    end
  end
end
