-- Cases for test_pattern.c, which gives the functions under test and those that control the budget;
-- `string` has Lua's own functions.
local ours, set_pauses, get_pauses, set_ending = ...
local stock = string
local random, pack, unpack, concat = math.random, table.pack, table.unpack, table.concat

local cases = {}

-- --- Running -------------------------------------------------------------------------------------

-- Calls a function in a coroutine, and resumes that until it has ended.
local function through_pauses(f, ...)
   local co = coroutine.create(f)
   local results = pack(coroutine.resume(co, ...))
   while coroutine.status(co) == "suspended" do
      results = pack(coroutine.resume(co))
   end
   return results
end

-- All matches, up to a limit.
local function all(gmatch, ...)
   local found, next_match = {}, gmatch(...)
   for _ = 1, 200 do
      local match = pack(next_match())
      if match.n == 0 then
         return #found, unpack(found)
      end
      for i = 1, match.n do
         found[#found + 1] = match[i]
      end
      found[#found + 1] = "|"
   end
   return "more", unpack(found)
end

local function show(value)
   if type(value) == "string" then
      return ("%q"):format(value):gsub("[^ -~]", function(c) return ("\\x%02x"):format(c:byte()) end) .. ""
   end
   return math.type(value) == "float" and ("%a"):format(value) or tostring(value)
end

local function show_all(values)
   local shown = {}
   for i = 1, values.n do
      shown[i] = show(values[i])
   end
   return concat(shown, ", ")
end

local function same(a, b)
   if a.n ~= b.n then
      return false
   end
   for i = 1, a.n do
      if a[i] ~= b[i] or math.type(a[i]) ~= math.type(b[i]) then
         return false
      end
   end
   return true
end

local function run(functions, name, ...)
   if name == "gmatch" then
      return all(functions.gmatch, ...)
   end
   return functions[name](...)
end

-- Compares one call; `prepare` makes new arguments for each side.
local function compare(name, paused, arguments, mine)
   local theirs = pack(pcall(run, stock, name, unpack(arguments, 1, arguments.n)))
   mine = mine or arguments
   local own = paused and through_pauses(run, ours, name, unpack(mine, 1, mine.n))
      or pack(pcall(run, ours, name, unpack(mine, 1, mine.n)))
   if not same(theirs, own) then
      error(("%s(%s)\n  Lua:  %s\n  ours: %s"):format(name, show_all(arguments), show_all(theirs), show_all(own)), 0)
   end
end

-- --- Chance --------------------------------------------------------------------------------------

local alphabets = { "ab", "ab(", "a1 _", "ab\0", "\0\200\255a", "()a", "x=1;y ", "a.%]-^[" }
local specials = { ".", "%a", "%d", "%s", "%w", "%A", "%W", "%p", "%c", "%x", "%u", "%l", "%g", "%z", "%Z", "%D", "%S", "%.", "%%", "%(",
   "%]", "%-", "%\0", "%\200", "[ab]", "[^a]", "[%a_]", "[^%s]", "[a-z]", "[]]", "[^]]", "[%]]", "[a-]", "[-a]", "[^-]", "[+-%%]",
   "[%w%-]", "[\0-\127]", "[\128-\255]", "[^\0]", "[%a-z]", "[a-%]]", "[]-a]", "[b-a]", "[()]", "[%d.]" }
local groups = { "%b()", "%bab", "%baa", "%f[%a]", "%f[^a]", "%f[\0]", "%f[b]", "%1", "%2", "()", "()", "$", "^" }
local broken = { "%", "[", "[^", "[a", "[]", "[%", "[%]", "[a-", "%b", "%ba", "%f", "%fa", "%f[", "%0", "%3", "%9", "(", ")", ")", "(", "()", "%f[a" }
local repetitions = { "*", "+", "-", "?" }

local function one_of(list)
   return list[random(#list)]
end

local function random_char(alphabet)
   local i = random(#alphabet)
   return alphabet:sub(i, i)
end

local function random_text(alphabet, longest)
   local text = {}
   for i = 1, random(0, longest) do
      text[i] = random_char(alphabet)
   end
   return concat(text)
end

local function random_item(alphabet)
   if random(3) == 1 then
      return one_of(specials)
   end
   local c = random_char(alphabet)
   return random(4) > 1 and c:find "^[%p]" and "%" .. c or c
end

-- Few repetitions in one pattern, because each may multiply the time.
local function random_pattern(alphabet)
   local pattern, open, repeated = {}, 0, 0
   if random(6) == 1 then
      pattern[1] = "^"
   end
   for _ = 1, random(0, 6) do
      local kind = random(20)
      local piece
      if kind <= 13 then
         piece = random_item(alphabet)
         if repeated < 4 and random(2) == 1 then
            piece, repeated = piece .. one_of(repetitions), repeated + 1
         end
      elseif kind <= 15 then
         piece, open = "(", open + 1
      elseif kind <= 17 and open > 0 then
         piece, open = ")", open - 1
      elseif random(12) == 1 then
         piece = one_of(broken)
      else
         piece = one_of(groups)
      end
      pattern[#pattern + 1] = piece
   end
   if random(8) > 1 then
      pattern[#pattern + 1] = (")"):rep(open)
   end
   if random(8) == 1 then
      pattern[#pattern + 1] = "$"
   end
   return concat(pattern)
end

local replacements = { "", "x", "%0", "<%1>", "%1%2", "%%", "%", "%a", "long %0 text %0 and more", "a\0b", "%2", "%9", "x%", 7, -1.5 }
local values = { "v", "", false, 12, 1.5, "%1", "longer than it was" }

-- Replacements for gsub: the same value for both sides, or two that behave the same; ours may
-- yield.
local function random_replacement(may_yield)
   local kind = random(6)
   if kind <= 2 then
      return one_of(replacements)
   elseif kind == 3 then
      local t = { a = one_of(values), b = one_of(values), ab = "AB", [1] = "one", [2] = random(30) == 1 and {} or nil, [""] = one_of(values) }
      return t
   end
   local salt = random(7)
   local function answer(...)
      local first = ...
      local n = select("#", ...) + #tostring(first) + salt
      if n % 9 == 0 and salt == 3 then
         error("no " .. n, 0)
      elseif n % 5 == 0 and salt == 1 then
         return {}
      end
      return n % 3 ~= 0 and values[n % #values + 1] or nil
   end
   local function yielding(...)
      if may_yield then
         coroutine.yield()
      end
      return answer(...)
   end
   if kind == 4 then
      return answer, yielding
   elseif kind == 5 then
      local class = { __index = function(_, k) return answer(k) end }
      local mine = { __index = function(_, k) return yielding(k) end }
      return setmetatable({ a = "direct" }, class), setmetatable({ a = "direct" }, mine)
   end
   return setmetatable({}, { __index = setmetatable({ b = "second" }, { __index = function(_, k) return answer(k) end }) }),
      setmetatable({}, { __index = setmetatable({ b = "second" }, { __index = function(_, k) return yielding(k) end }) })
end

local function random_case(paused)
   local alphabet = one_of(alphabets)
   local subject = random_text(alphabet, random(4) == 1 and 24 or 9)
   local kind = random(10)
   local pattern = random(20) == 1 and random_text(alphabet, 3) or random_pattern(alphabet)
   local init
   if random(3) == 1 then
      init = random(-#subject - 2, #subject + 3)
   end
   if kind <= 2 then
      compare("find", paused, pack(subject, pattern, init, random(8) == 1))
   elseif kind <= 4 then
      compare("match", paused, pack(subject, pattern, init))
   elseif kind <= 6 then
      compare("gmatch", paused, pack(subject, pattern, init))
   else
      local theirs, mine = random_replacement(paused)
      local most
      if random(4) == 1 then
         most = random(-1, 4)
      end
      compare("gsub", paused, pack(subject, pattern, theirs, most), pack(subject, pattern, mine or theirs, most))
   end
end

function cases.random(count, seed)
   math.randomseed(seed)
   for _ = 1, count do
      random_case(false)
   end
end

function cases.random_always_paused(count, seed)
   math.randomseed(seed)
   set_pauses(1, 1)
   for _ = 1, count do
      random_case(true)
   end
   assert(get_pauses() > count)
end

function cases.random_paused(count, seed)
   math.randomseed(seed)
   for i = 1, count do
      if i % 50 == 1 then
         set_pauses(random(1, 6), random(1, 9))
      end
      random_case(true)
   end
   assert(get_pauses() > count / 4)
end

-- Subjects of thousands of characters, with the usual number of steps between questions and with
-- fewer.
local long_patterns = { ".*", ".-b", "(.*)c", "(.-)c(.*)", "a*", "[ab]*c", "%a+", "(%a+) (%a+)", "%b()", "()b()", "x", ".*x", ".-x", "ab",
   "[^b]+", "%f[%w]%w+", "(a*)b%1", "^.-c$", "c$", "b?c?$", "%w+%s*$", "", "a-b" }
function cases.long(count, seed)
   math.randomseed(seed)
   for i = 1, count do
      set_pauses(random(1, 3), i % 2 == 0 and 4096 or random(1, 500))
      local parts = {}
      for j = 1, random(1, 30) do
         local c = one_of { "a", "b", "c", " ", "(", ")", "ab ", "aab" }
         parts[j] = c:rep(random(1, 700))
      end
      local subject, pattern = concat(parts), one_of(long_patterns)
      if pattern:find "[*-]" and #subject > 2500 then
         subject = subject:sub(1, 2500) -- some cases take quadratic time
      end
      compare("find", true, pack(subject, pattern))
      compare("match", true, pack(subject, pattern, random(#subject)))
      compare("gmatch", true, pack(subject, pattern))
      compare("gsub", true, pack(subject, pattern, "<%0>"))
      compare("gsub", true, pack(subject, pattern, one_of { "", "%0%0%0%0" }))
      compare("gsub", true, pack(subject, pattern, {}))
      compare("gsub", true, pack(subject, pattern, string.upper))
   end
   local big = ("ab"):rep(200000)
   for _, what in ipairs { "aa", "abb", "bb", "ba", big, big .. "b", "b" .. big, ("ab"):rep(30000) .. "b" } do
      set_pauses(1)
      local before = get_pauses()
      compare("find", true, pack(big, what, 1, true))
      assert(#what > 100000 or what == "ba" or get_pauses() > before)
   end
   compare("find", true, pack(("a"):rep(300000) .. "ba", "ba", 1, true))
end

-- --- By hand -------------------------------------------------------------------------------------

local function returns(expected, f, ...)
   local results = pack(f(...))
   if not same(expected, results) then
      error(("%s: expected %s, got %s"):format(show_all(pack(...)), show_all(expected), show_all(results)), 2)
   end
end

local function raises(message, f, ...)
   local ok, problem = pcall(f, ...)
   if ok or not tostring(problem):find(message, 1, true) then
      error(("expected the error %q, got %s"):format(message, tostring(problem)), 2)
   end
end

function cases.by_hand()
   local find, match, gmatch, gsub = ours.find, ours.match, ours.gmatch, ours.gsub
   -- Positions, init, plain.
   returns(pack(1, 0), find, "", "")
   returns(pack(1, 0), find, "orrery", "")
   returns(pack(7, 6), find, "orrery", "", 7)
   returns(pack(nil), find, "orrery", "", 8)
   returns(pack(4, 5), find, "orrery", "er")
   returns(pack(6, 6), find, "orrery", "y", -1)
   returns(pack(1, 1), find, "orrery", "o", -100)
   returns(pack(2, 2), find, "a.b.c", ".", 2, true)
   returns(pack(3, 4), find, "a%%)", "%)", 1, true)
   returns(pack(2, 2), find, "a)", ")")
   returns(pack(nil), find, "abc", "B")
   returns(pack(2, 4, "b\0c"), find, "ab\0cd", "(b%zc)")
   returns(pack(3, 3), find, "ab\0", "\0")
   -- Repetitions.
   returns(pack "aaab", match, "aaab", ".*b")
   returns(pack "aaa", match, "aaa", ".*a")
   returns(pack "b", match, "aaab", ".*(b)")
   returns(pack "aaab", match, "aaab", ".-b")
   returns(pack "", match, "aaab", ".-")
   returns(pack "aaab", match, "aaab", "a*a?a?b")
   returns(pack("", "aaa"), match, "aaa", "^(.-)(a*)$")
   returns(pack("aaa", ""), match, "aaa", "^(.*)(a-)$")
   returns(pack(nil), match, "aaa", "^.-$b")
   returns(pack "a$a", match, "xa$a", "a$a")
   returns(pack "**", match, "a**+", "*+") -- a star with nothing before it is a plain character
   -- Sets.
   returns(pack "]", match, "a]", "[]]")
   returns(pack "a", match, "]a", "[^]]")
   returns(pack "-", match, "z-", "[a-]")
   returns(pack "%", match, "a%", "[%%]")
   returns(pack "\255\128", match, "a\255\128z", "[\128-\255]+")
   returns(pack "_x1", match, "  _x1 ", "[%a_][%w_]*")
   -- Captures.
   returns(pack("k", "v"), match, "k = v", "^(%w+)%s*=%s*(%w+)$")
   returns(pack(1, 4), match, "abc", "()abc()")
   returns(pack("abc", "b", 3), match, "abc", "(a(b)()c)")
   returns(pack('"', "it's"), match, [[say "it's"]], [[(["'])(.-)%1]])
   returns(pack(nil), match, "aa", "()a%1")
   returns(pack(1), match, "(", "()")
   -- Balance and frontier.
   returns(pack "(a(b)c)", match, "x(a(b)c))", "%b()")
   returns(pack "xax", match, "zxaxx", "%bxx")
   returns(pack(nil), match, "((", "%b()")
   returns(pack("THE (quick) fox", 0), gsub, "THE (quick) fox", "%f[%z]x", "")
   returns(pack(5, 7), find, "the FOX", "%f[%u]%u+")
   returns(pack(4, 3), find, "abc", "%f[\0]")
   returns(pack(" [THE] (quick) [fox]", 2), gsub, " THE (quick) fox", "%f[^ ][%w]+", "[%0]")
   -- gsub: what is replaced, how often, and by what.
   returns(pack("-a-b-", 3), gsub, "ab", "", "-")
   returns(pack("-a-", 2), gsub, "ab", "b*", "-")
   returns(pack("xbxb", 1), gsub, "abxb", "^a", "x")
   returns(pack("abab", 0), gsub, "abab", "a", "x", 0)
   returns(pack("xbab", 1), gsub, "abab", "a", "x", 1)
   returns(pack("b a d c", 2), gsub, "a b c d", "(%w) (%w)", "%2 %1")
   returns(pack("<1><2><3>", 3), gsub, "abc", "().", "<%1>")
   returns(pack("a%", 1), gsub, "ab", "b", "%%")
   returns(pack("1 b 3", 3), gsub, "a b c", "%w", { a = 1, c = "3", b = false })
   returns(pack("a.b", 2), gsub, "a.b", "%w", function() end)
   returns(pack("AxBx", 2), gsub, "axbx", "(%w)x", function(c) return c:upper() .. "x" end)
   returns(pack("x12x", 1), gsub, "xax", "a", 12)
   returns(pack(("ab"):rep(5000), 5000), gsub, ("a"):rep(5000), "a", "%0b")
   local words = {}
   for word, place in gmatch("one two  three", "(%a+)()") do
      words[#words + 1] = word .. place
   end
   assert(concat(words, " ") == "one4 two8 three15")
   returns(pack(3, 1, "|", 2, "|", 3, "|"), function() return 3, select(2, all(gmatch, "ab", "()")) end)
   returns(pack(2, "^a", "|"), all, gmatch, "a^a", "^a") -- gmatch has no anchor
   returns(pack(2, "b", "|"), all, gmatch, "abab", "b", 3)
   returns(pack(0), all, gmatch, "ab", "b?", 4)
   -- An error in a pattern is raised when the match reaches it.
   for _, malformed in ipairs {
      { "malformed pattern (ends with '%')", "a", "a%" },
      { "malformed pattern (missing ']')", "a", "[a" },
      { "malformed pattern (missing ']')", "a", "[]" },
      { "malformed pattern (missing ']')", "a", "[^]" },
      { "malformed pattern (missing ']')", "a", "[a%]" },
      { "malformed pattern (missing arguments to '%b')", "a", "%ba" },
      { "missing '[' after '%f' in pattern", "a", "%fa" },
      { "invalid pattern capture", "a", "a)" },
      { "invalid capture index %1", "a", "(%1)" },
      { "invalid capture index %0", "a", "%0" },
      { "unfinished capture", "a", "(a" },
      { "too many captures", "a", ("()"):rep(33) },
   } do
      local message, subject, pattern = unpack(malformed)
      raises(message, match, subject, pattern)
      raises(message, gsub, subject, pattern, print)
      raises(message, all, gmatch, subject, pattern)
      compare("match", false, pack(subject, pattern))
   end
   returns(pack(nil), match, "a", "b[")
   raises("invalid capture index %2", gsub, "a", "a", "%2")
   raises("invalid use of '%' in replacement string", gsub, "a", "a", "%x")
   raises("invalid replacement value (a table)", gsub, "a", "a", { a = {} })
   raises("invalid replacement value (a boolean)", gsub, "a", "a", function() return true end)
   raises("index", gsub, "a", "a", setmetatable({}, { __index = 5 }))
   raises("too long", gsub, "a", "a", (function() local t = {} return setmetatable(t, { __index = t }) end)())
   assert(select("#", match(("x"):rep(32), ("(x)"):rep(32))) == 32)
end

-- The function's name is in the message, so both are called by the same name.
function cases.arguments()
   local calls = {
      function(s) return s.find() end,
      function(s) return s.find("a") end,
      function(s) return s.find({}, "a") end,
      function(s) return s.find("a", "a", {}) end,
      function(s) return s.find("a", "a", 1.5) end,
      function(s) return s.find("a", "a", "2") end,
      function(s) return s.find(12, 2) end,
      function(s) return s.find("a.", ".", 1, 0) end,
      function(s) return s.find("a", "a", math.mininteger) end,
      function(s) return s.find("a", "a", math.maxinteger) end,
      function(s) return s.match() end,
      function(s) return s.match("a", nil) end,
      function(s) return s.match("a", "a", "x") end,
      function(s) return s.match(123, 2) end,
      function(s) return s.match("a[", "[") end,
      function(s) return s.gmatch() end,
      function(s) return s.gmatch("a") end,
      function(s) return s.gmatch("a", "a", {}) end,
      function(s) return s.gmatch("aa", "a", -1)() end,
      function(s) return s.gmatch("aa", "a", math.mininteger)() end,
      function(s) return s.gmatch("aa", "a", math.maxinteger)() end,
      function(s) return s.gmatch(121, 1)() end,
      function(s) return s.gmatch("a[", "[")() end,
      function(s) return s.gsub() end,
      function(s) return s.gsub("a") end,
      function(s) return s.gsub("a", "a") end,
      function(s) return s.gsub("a", "a", true) end,
      function(s) return s.gsub("a", "a", nil, {}) end,
      function(s) return s.gsub("a", "a", "b", {}) end,
      function(s) return s.gsub("a", "a", "b", "x") end,
      function(s) return s.gsub("aaa", "a", "b", "2") end,
      function(s) return s.gsub("aaa", "a", "b", -5) end,
      function(s) return s.gsub("aaa", "a", "b", math.maxinteger) end,
      function(s) return s.gsub(111, 1, 2) end,
      function(s) return s.gsub("a[", "[", "x") end,
      function(s) return s.gsub("a[", "[", "x", 0) end,
      function(s) return s.gsub("a", "a", io.stdout) end,
      function(s) return s.gsub("a", "a", setmetatable({}, { __index = function() error "mine" end })) end,
   }
   for i, call in ipairs(calls) do
      local theirs, own = pack(pcall(call, stock)), pack(pcall(call, ours))
      if type(theirs[2]) ~= "function" and not same(theirs, own) then
         error(("call %d: Lua: %s; ours: %s"):format(i, show_all(theirs), show_all(own)))
      end
   end
end

function cases.callbacks()
   local yields = {}
   local co = coroutine.wrap(function()
      local result, count = ours.gsub("a b c", "%w", function(c)
         return coroutine.yield(c)
      end)
      local t = setmetatable({ x = "raw" }, { __index = setmetatable({}, { __index = function(_, k) return coroutine.yield(k) end }) })
      local second = ours.gsub("x-y-z", "%a", t)
      return result, count, second
   end)
   local value = co()
   while #value == 1 do
      yields[#yields + 1] = value
      local results = pack(co(value ~= "b" and value .. value or nil))
      value = results[1]
      if results.n == 3 then
         returns(pack("aa b cc", 3, "raw-yy-zz"), unpack, results, 1, 3)
      end
   end
   assert(concat(yields) == "abcyz")
   -- Nested calls, with a result that is too long for the buffer on the stack, and errors from
   -- inside.
   local outer = through_pauses(ours.gsub, ("ab "):rep(300), "%w+", function(word)
      coroutine.yield()
      local inner = ours.gsub(word, ".", function(c)
         coroutine.yield()
         return c:upper():rep(3)
      end)
      return inner
   end)
   assert(outer[2] == ("AAABBB "):rep(300) and outer[3] == 300)
   local failed = through_pauses(ours.gsub, "abc", ".", function(c)
      coroutine.yield()
      return c == "b" and error { c } or nil
   end)
   assert(failed[1] == false and failed[2][1] == "b")
   failed = through_pauses(ours.gsub, "abc", ".", function()
      coroutine.yield()
      return {}
   end)
   assert(failed[1] == false and failed[2]:find "invalid replacement value %(a table%)")
end

function cases.depth()
   local n = 5000
   assert(ours.match(("a"):rep(n), ("a?"):rep(n)) == ("a"):rep(n))
   assert(#ours.match(("ab"):rep(n), ("a*b*"):rep(n)) == 2 * n)
   set_pauses(1, 100)
   assert(through_pauses(ours.match, ("a"):rep(n), ("a-"):rep(n) .. "$")[1])
   set_pauses(0)
   raises("pattern too complex", ours.match, ("a"):rep(250000), ("a?"):rep(250000))
   assert(ours.match(("a"):rep(199000), ("a?"):rep(199000)))
end

-- A match that would take too long asks the budget, and is ended.
function cases.ended()
   set_pauses(0)
   set_ending(true)
   local hopeless = ("a"):rep(60)
   for _, f in ipairs { ours.find, ours.match, ours.gsub, function(...) return ours.gmatch(...)() end } do
      raises("ended", f, hopeless, ("a*"):rep(20) .. "b", "1")
      raises("ended", f, ("("):rep(5000), "%b()", "1")
      raises("ended", f, ("a"):rep(5000), "[^a]", "1")
      raises("ended", f, ("a"):rep(5000), "a-b", "1")
      raises("ended", f, ("a"):rep(50), "[" .. ("b"):rep(200000) .. "]", "1")
      raises("ended", f, ("a"):rep(50), "[^" .. ("b"):rep(200000) .. "]-$", "1")
      raises("ended", f, ("a"):rep(50), "%f[" .. ("b"):rep(200000) .. "]", "1")
   end
   set_ending(false)
end

function cases.shared_iterator()
   set_pauses(1, 1)
   local next_word = ours.gmatch("one two three", "%a+")
   local a, b = coroutine.create(next_word), coroutine.create(next_word)
   assert(coroutine.resume(a))
   local results
   repeat
      results = pack(coroutine.resume(b))
   until coroutine.status(b) == "dead"
   assert(results[1] and results[2] == "one")
   repeat
      results = pack(coroutine.resume(a))
   until coroutine.status(a) == "dead"
   assert(results[1] and results[2] == "one")
   set_pauses(0)
   assert(next_word() == "two")
end

-- A paused call needs some values.  Whatever replaces one of them, the call ends with an error or a
-- result.
function cases.tampering()
   for slot = 1, 8 do
      for _, call in ipairs {
         function() return ours.find(("a"):rep(40) .. slot, "^" .. ("a?"):rep(14) .. "(b)") end,
         function() return ours.gsub(("a"):rep(40) .. slot, "a+b?", ("x"):rep(600)) end,
         function() return ours.gsub(("a"):rep(40) .. slot, "a", function() coroutine.yield() end) end,
         function() return ours.gsub(("a"):rep(40) .. slot, "a", function()
            debug.setlocal(2, slot, nil)
            collectgarbage()
            return ("x"):rep(600)
         end) end,
         function() return ours.gmatch(("a"):rep(18) .. slot, ("a?"):rep(14) .. "(b)")() end,
      } do
         for resumes = 1, 60, 7 do
            set_pauses(1, 1)
            local co = coroutine.create(call)
            for _ = 1, resumes do
               coroutine.resume(co)
            end
            if coroutine.status(co) == "suspended" then
               for level = 0, 1 do
                  if debug.getinfo(co, level, "S").what == "C" then
                     pcall(debug.setlocal, co, level, slot, {})
                  end
               end
               collectgarbage()
               set_pauses(1, 1000)
               while coroutine.status(co) == "suspended" do
                  coroutine.resume(co)
               end
            end
         end
      end
   end
end

-- Each case runs with every allocation failing in turn.
cases.memory = {
   function() ours.find("key = value", "(%w+)%s*=%s*(%w+)") end,
   function() ours.match(("a"):rep(30), ("a?"):rep(30) .. "(b*)") end,
   function() for _ in ours.gmatch("one two", "%a+") do end end, -- luacheck: ignore
   function() ours.gsub("one two", "%a", "<%0%0>") end,
   function() ours.gsub(("one two"):rep(40), "()%a+", ("x"):rep(40) .. "%1") end,
   function() ours.gsub("one two", "%a", { o = "x", n = 1 }) end,
   function() ours.gsub("one two", "%a+", function(word) return word .. word end) end,
   function() ours.gsub(("one two"):rep(20), "%a+", setmetatable({}, { __index = function(_, k) return k:rep(20) end })) end,
}

return cases
