-- Misbehaves: looks for functions that it should not have, and finds none.
for _, name in ipairs { "io", "os.execute", "debug.getregistry", "package", "dofile" } do
  local value = _G
  for part in name:gmatch("%w+") do
    value = type(value) == "table" and value[part] or nil
  end
  host.log(("%s: %s"):format(name, type(value)))
end
host.log(("require 'socket': %s"):format(pcall(require, "socket")))
error("and so it fails")
