-- A module of that name cannot be put in place by the script, so that requiring it would run a loop.
-- expect: ok
if package and package.preload then
  pcall(function() package.preload.trap = function() while true do end end end)
end
assert(not pcall(require, "trap"))
