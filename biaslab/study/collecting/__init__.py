"""How a study is walked: windows of whole contexts are asked, read, put into columns and dropped."""
