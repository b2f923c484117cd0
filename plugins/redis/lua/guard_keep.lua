local refusal = guard.refuse_yours() -- what is kept has to be known to the next master, or end before it grants
if refusal then
    return refusal
end
