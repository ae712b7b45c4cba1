-- C functions as readers: they fail, or return things that are no strings.
-- expect: ok
for _, reader in ipairs { type, print, error, assert, next, pcall, tostring, coroutine.running, coroutine.yield, table.pack } do
  pcall(load, reader)
end
