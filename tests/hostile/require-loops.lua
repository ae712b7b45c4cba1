-- The script cannot provide a module whose loading would run a loop.
-- expect: ok
if package and package.preload then
  pcall(function() package.preload.trap = function() while true do end end end)
end
assert(not pcall(require, "trap"))
