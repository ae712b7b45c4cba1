-- The command line of `orrery test`.

local options = {}

options.usage = [[
usage: orrery test [options] [files and directories]

Runs test files: the files that are named, and in directories all files with names like
*_test.lua, *_spec.lua or test_*.lua.  Without any, looks in tests, spec and test.  Each file has
its own process and Lua state.  Each test is a task on a virtual clock, where waiting takes no time.

options:
  --filter PATTERN    run only tests whose full name contains this text or Lua pattern
  --list              print the names of the tests, and run none
  --format F          report as pretty, tap or junit
  --jobs N            run N files at once; default: one for each processor
  --shuffle           run files and tests in a random order
  --shuffle-tasks     poll ready tasks in a random order, where none is promised
  --seed N            seed for both, and for math.random; default: a new one each time
  --timeout LIMITS    real time, such as test=10s,file=5m,run=1h or 10s for a test; 0 for no limit
  --real-time         use the machine's clock
  --color WHEN        auto, always or never; default: on a terminal, unless NO_COLOR is set
  --mount NAME        make the API a global with this name, besides require "orrery"
  --reactor R         auto, uring or epoll
  --help              print this

The exit status is 0 if all tests passed, 1 if any failed, and 2 if there was nothing to run or the
command line is wrong.  Ctrl-C ends the run and reports what was running.
]]

local formats = { pretty = true, tap = true, junit = true }
local colors = { auto = true, always = true, never = true }
local reactors = { auto = true, uring = true, epoll = true }
local units = { [""] = 1, ms = 1, s = 1000, m = 60000, h = 3600000 }

local function refuse(...)
  error({ usage = string.format(...) }, 0)
end

local function milliseconds(text)
  local number, unit = text:match "^(%d+%.?%d*)(%a*)$"
  if not number or not units[unit] then
    refuse("--timeout: expected a time such as 500ms, 10s or 5m, got '%s'", text)
  end
  return math.ceil(tonumber(number) * units[unit])
end

local function read_limits(text, limits)
  for part in text:gmatch "[^,]+" do
    local which, value = part:match "^(%a+)=(.*)$"
    which = which or "test"
    if which ~= "test" and which ~= "file" and which ~= "run" then
      refuse("--timeout: expected test=, file= or run=, got '%s'", part)
    end
    limits[which] = milliseconds(value or part)
  end
end

local function integer(option, text, least)
  local number = math.tointeger(tonumber(text))
  if not number or number < least then
    refuse("%s: expected a whole number, at least %d, got '%s'", option, least, text)
  end
  return number
end

local function one_of(option, text, known, names)
  if not known[text] then
    refuse("%s: expected %s, got '%s'", option, names, text)
  end
  return text
end

local flags = {
  ["--list"] = "list", ["--shuffle"] = "shuffle", ["--shuffle-tasks"] = "shuffle_tasks", ["--real-time"] = "real_time",
  ["--help"] = "help", ["-h"] = "help",
}

local with_value = {
  ["--color"] = function(self, text) self.color = one_of("--color", text, colors, "auto, always or never") end,
  ["--filter"] = function(self, text) self.filter = text end,
  ["--format"] = function(self, text) self.format = one_of("--format", text, formats, "pretty, tap or junit") end,
  ["--jobs"] = function(self, text) self.jobs = integer("--jobs", text, 1) end,
  ["--seed"] = function(self, text) self.seed = integer("--seed", text, math.mininteger) end,
  ["--timeout"] = function(self, text) read_limits(text, self.limits) end,
  ["--mount"] = function(self, text) self.mount = text end,
  ["--reactor"] = function(self, text) self.reactor = one_of("--reactor", text, reactors, "auto, uring or epoll") end,
}

---Returns the options of a list of words. Raises { usage = what is wrong with it }.
function options.parse(words)
  local self = {
    paths = {}, format = "pretty", reactor = "auto", color = "auto",
    limits = { test = 10000, file = 300000, run = 3600000, grace = 500 },
  }
  local at = 1
  while words[at] do
    local word, value = words[at], nil
    local name, given = word:match "^(%-%-[%a-]+)=(.*)$"
    if name and with_value[name] then
      word, value = name, given
    end
    if flags[word] then
      self[flags[word]] = true
    elseif with_value[word] then
      if not value then
        at = at + 1
        value = words[at] or refuse("%s: expected a value, got nothing", word)
      end
      with_value[word](self, value)
    elseif word == "--" then
      table.move(words, at + 1, #words, #self.paths + 1, self.paths)
      break
    elseif word:sub(1, 1) == "-" and word ~= "-" then
      refuse("unknown option %s; see orrery test --help", word)
    else
      self.paths[#self.paths + 1] = word
    end
    at = at + 1
  end
  return self
end

-- Quotes a word for a shell.
local function quote(word)
  if word:find "^[%w%-_=./:,+@%%]+$" then
    return word
  elseif not word:find "[%c\x80-\xff]" or utf8.len(word) and not word:find "%c" then
    return "'" .. word:gsub("'", "'\\''") .. "'"
  end
  return "$'" .. word:gsub("[%c\\'\x80-\xff]", function(c)
    return string.format("\\x%02x", c:byte())
  end) .. "'"
end

---Returns the command that runs one test again.
function options.repeat_command(self, file, name)
  local words = { "orrery", "test" }
  local function add(...)
    table.move({ ... }, 1, select("#", ...), #words + 1, words)
  end
  add("--seed", tostring(self.seed))
  if self.shuffle then add "--shuffle" end
  if self.shuffle_tasks then add "--shuffle-tasks" end
  if self.real_time then add "--real-time" end
  if self.mount then add("--mount", self.mount) end
  if self.reactor ~= "auto" then add("--reactor", self.reactor) end
  if name and not self.shuffle then
    add("--filter", name)
  elseif self.filter then
    add("--filter", self.filter)
  end
  add(file)
  for i, word in ipairs(words) do
    words[i] = quote(word)
  end
  return table.concat(words, " ")
end

return options
