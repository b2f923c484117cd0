local refusal = guard.refuse_yours()
if refusal then
    return refusal
end
if guard.refuse_grants() then
    ARGV[#ARGV - 1] = '1' -- passes nothing on
end
