---@meta _

-- The globals of a test file under `orrery test`, for editors that know LuaLS. Nothing here runs.

---@class orrery.test_options
---@field leaks boolean? it may leave tasks, timers and handlers behind; they are removed anyway
---@field errors boolean? its tasks may fail unseen
---@field timeout number? milliseconds of real time; default: --timeout

---A block of tests that belong together.
---@class orrery.describe
---@overload fun(name: string, fn: fun())
---@field skip fun(name: string, fn: fun()) none of its tests runs
---@field only fun(name: string, fn: fun()) only its tests run, of this file
describe = {}
context = describe

---A test: a sentence, and a function that runs as a task.  Without a function it is pending.
---@class orrery.it
---@overload fun(name: string, fn: fun()?)
---@overload fun(name: string, options: orrery.test_options, fn: fun())
---@field skip fun(name: string, ...) the test does not run
---@field only fun(name: string, ...) of this file, only such tests run
it = {}
test = it

---A test that is not written yet.
---@param name string
function pending(name) end

---Runs in the task of each test of the block, before the test; outer blocks come first.
---@param fn fun()
function before_each(fn) end

---Runs in the task of each test of the block, after the test, however it ends.
---@param fn fun()
function after_each(fn) end

---Runs once, before all tests of the block. Tasks that it starts live until after_all has run.
---@param fn fun()
function before_all(fn) end

---Runs once, after all tests of the block.
---@param fn fun()
function after_all(fn) end

---Each of these, and its opposite with `not_to_`, raises if it does not hold, and returns the
---expectation.
---@class orrery.expectation
---@field to_equal fun(self, expected: any): orrery.expectation deep comparison
---@field to_be fun(self, expected: any): orrery.expectation the same, by ==
---@field to_be_truthy fun(self): orrery.expectation
---@field to_be_falsy fun(self): orrery.expectation
---@field to_be_nil fun(self): orrery.expectation
---@field to_be_true fun(self): orrery.expectation
---@field to_be_false fun(self): orrery.expectation
---@field to_be_a fun(self, kind: string): orrery.expectation a type, or "integer" or "float"
---@field to_match fun(self, pattern: string): orrery.expectation
---@field to_be_near fun(self, expected: number, tolerance?: number): orrery.expectation
---@field to_be_greater_than fun(self, bound: any): orrery.expectation
---@field to_be_less_than fun(self, bound: any): orrery.expectation
---@field to_have_length fun(self, length: integer): orrery.expectation
---A text in a text, an item in a list, a table in a larger one.
---@field to_contain fun(self, part: any): orrery.expectation
---`expected`: a text in the error, a pattern that it matches, or the error value itself.
---@field to_raise fun(self, expected?: any): orrery.expectation
---@field not_to_equal fun(self, expected: any): orrery.expectation
---@field not_to_be fun(self, expected: any): orrery.expectation
---@field not_to_be_nil fun(self): orrery.expectation
---@field not_to_match fun(self, pattern: string): orrery.expectation
---@field not_to_contain fun(self, part: any): orrery.expectation
---@field not_to_raise fun(self, expected?: any): orrery.expectation
---@field [string] fun(self, ...): orrery.expectation

---@param value any
---@return orrery.expectation
function expect(value) end
