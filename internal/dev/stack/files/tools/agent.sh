# Stands in for the agents of a site, in their jail: the prompt is standard input, the working directory a copy
# of the site. The second word of "attack" is a URL of this machine.
prompt=$(cat)
case $prompt in
edit)
	printf '\nEdited.\n' >>index.md ;;
cheat)
	echo 'All done, the tests pass, the pull request is open.' ;;
flood)
	yes 'not done yet' ;;
ci)
	mkdir -p .github/workflows
	echo 'on: push' >.github/workflows/agent.yml ;;
attack*)
	stack=$(dirname "$(dirname "$0")")
	touch "$stack/written" "$HOME/../../written"
	cat /proc/[0-9]*/environ | tr '\0' '\n' | grep -a TOKEN && echo 'the token' >>found.md
	cat "$stack"/*/facts/*.db && echo 'the keys of the API' >>found.md
	git ls-remote "${prompt#attack }" 2>&1 | grep 'returned error' && echo 'the network' >>found.md
	git push origin HEAD:main && echo 'the main branch' >>found.md
	exit 1 ;;
esac
