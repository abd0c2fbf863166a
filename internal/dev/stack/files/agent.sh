# Stands in for an agent: the prompt is standard input, the working directory a
# worktree of the site. What it changes becomes the pull request.
prompt=$(cat)
case $prompt in
*'sign in'*)
	for page in guides/*.md; do
		sed 's/log in/sign in/g' "$page" >page.new
		mv page.new "$page"
	done ;;
*authentication*)
	printf '\nSend it in the header `Authorization: Bearer $KEY`.\n' >>authentication.md ;;
*example*)
	printf '\n## Example\n\n```sh\ncurl -H "Authorization: Bearer $KEY" https://api.example.com/v1/pages\n```\n' >>reference.md ;;
*)
	printf '\nSee also the [quick start](guides/quick-start.md).\n' >>index.md ;;
esac
