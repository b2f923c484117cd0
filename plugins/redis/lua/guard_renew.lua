-- An adoption is alone in its script. Its token may have been unlocked at another master, which granted the name since.
local refusal = ARGV[3] == 'A' and guard.refuse_grants() or guard.refuse_yours()
if refusal then
    return refusal
end
if guard.refuse_grants() then
    ARGV[#ARGV - 1] = '1' -- passes nothing on
end
