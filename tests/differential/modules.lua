-- untrusted: there is no package
-- require and package, with modules in a folder that the second argument names.

local folder = arg[2]

local function put(name, text)
  local f <close> = assert(io.open(folder .. "/" .. name .. ".lua", "w"))
  f:write(text)
end

local function plain(...)
  local r = table.pack(...)
  for i = 1, r.n do if type(r[i]) == "string" then r[i] = r[i]:gsub(folder:gsub("%p", "%%%0"), "DIR") end end
  return table.unpack(r, 1, r.n)
end

package.path = folder .. "/?.lua;" .. folder .. "/?/init.lua"
package.cpath = folder .. "/?.so"

check("a module", function()
  put("simple", "return { name = ..., path = select(2, ...) }")
  package.loaded.simple = nil
  local m, where = require "simple"
  return m.name, plain(m.path, where), require "simple" == m, select("#", require "simple"), package.loaded.simple == m
end, 10)

check("a module that returns nothing", function()
  put("nothing", "a_global = ...")
  package.loaded.nothing = nil
  return require "nothing", package.loaded.nothing, a_global
end, 10)

check("a module that returns false", function()
  put("falsy", "return false")
  package.loaded.falsy = nil
  local r = { (require "falsy") }
  r[2] = package.loaded.falsy
  return r
end, 10)

check("a module that sets loaded itself", function()
  put("itself", "package.loaded[...] = 'set' return nil")
  package.loaded.itself = nil
  return (require "itself")
end, 10)

check("what is not there", function() return plain(pcall(require, "no.such.module")) end, 10)

check("a module that fails", function()
  put("failing", "error 'while loading'")
  local r = { plain(pcall(require, "failing")) }
  return r, package.loaded.failing
end, 10)

check("a module that does not compile", function()
  put("broken", "return +")
  return plain(pcall(require, "broken"))
end, 10)

check("modules that require each other", function()
  put("left", "package.loaded.left = { n = 'left' } local r = require 'right' return { n = 'left', other = r.n }")
  put("right", "local l = require 'left' return { n = 'right', other = l.n }")
  package.loaded.left, package.loaded.right = nil, nil
  local l = require "left"
  return l.n, l.other, require "right".other
end, 10)

check("a module in a folder", function()
  os.execute("mkdir -p " .. folder .. "/sub")
  put("sub/init", "return 'init of ' .. ...")
  put("sub/part", "return 'part of ' .. ...")
  package.loaded.sub, package.loaded["sub.part"] = nil, nil
  return (require "sub"), (require "sub.part")
end, 2)

check("preload", function()
  package.preload.given = function(...) return { ... } end
  package.loaded.given = nil
  local m, extra = require "given"
  package.preload.given = nil
  return m, extra
end, 10)

check("a searcher", function()
  local function searcher(name) if name == "magic" then return function(...) return { ... } end, "extra" end return "\n\tno magic" end
  table.insert(package.searchers, 2, searcher)
  package.loaded.magic = nil
  local r = { require "magic" }
  local miss = select(2, pcall(require, "not.magic")):match("no magic")
  table.remove(package.searchers, 2)
  return r, miss
end, 10)

check("searchpath", function()
  put("simple", "return 1")
  return plain(package.searchpath("simple", package.path)), { plain(package.searchpath("none", package.path)) }, { plain(package.searchpath("a-b", "?.x;?.y", "-", "_")) }, plain(package.searchpath("simple", folder .. "/?.lua", ""))
end, 10)

check("loadlib of nothing", function() return { plain(package.loadlib(folder .. "/none.so", "f")) } end)

check("what package has", function()
  local names = {}
  for k in pairs(package) do names[#names + 1] = k end
  table.sort(names)
  return table.concat(names, " "), package.config, #package.searchers
end)

check("what is loaded at the start", function()
  local names = {}
  for _, k in ipairs { "_G", "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" } do names[#names + 1] = tostring(package.loaded[k] == (k == "_G" and _G or _G[k])) end
  return table.concat(names, " ")
end)

check("wrong arguments", function()
  return { pcall(require) }, { pcall(require, {}) }, { pcall(package.searchpath, "x") }
end)

check("a wrong path", function()
  local old = package.path
  package.path = 5
  local r = { pcall(require, "anything") }
  package.path = nil
  local s = { pcall(require, "anything") }
  package.path = old
  return { plain(table.unpack(r)) }, { plain(table.unpack(s)) }
end)

check("a yield while loading", function()
  put("yields", "coroutine.yield 'from the module' return 'loaded'")
  package.loaded.yields = nil
  local co = coroutine.create(function() return (require "yields") end)
  return coroutine.resume(co)
end, 1)

check("what the globals are", function()
  local names = {}
  for k in pairs(_G) do
    if not ({ check = 1, once = 1, burn = 1, arg = 1, a_global = 1 })[k] then names[#names + 1] = k end
  end
  table.sort(names)
  return table.concat(names, " ")
end)
